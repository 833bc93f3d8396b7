import json,gzip,collections,os,shutil,hashlib
from pathlib import Path
rows=[json.loads(l) for l in gzip.open('md2/manual_held.jsonl.gz','rt')]
out=Path('docsheld'); shutil.rmtree(out,ignore_errors=True)
half={}; miss=collections.Counter()
for r in rows:
    p,_,n=r['id'].rpartition('/'); pkg,_,rest=p.partition('/')
    f=Path('pk')/pkg/'usr/share'/rest
    if not f.is_file(): miss[pkg]+=1; continue
    if f.suffix=='.page' or '/zh-TW/' in p or 'zh_TW' in p: miss[f.suffix]+=1; continue
    h='ab'[hashlib.sha256(p.encode()).digest()[0]%2]
    if p not in half:
        half[p]=h; t=out/h/pkg/rest; t.parent.mkdir(parents=True,exist_ok=True); shutil.copy(f,t)
json.dump(half,open('half_held.json','w'))
print(len(half),collections.Counter(half.values()),miss,collections.Counter(p.split('/')[0] for p in half))
