import json,glob,gzip,hashlib
rows={}
for s in('md/manual_train.jsonl.gz',):
    for l in gzip.open(s,'rt'):
        r=json.loads(l); rows[r['id']]=r
p='/work/exp/wt/evaluator/data/user_questions.jsonl'
old=open(p,encoding='utf-8').read().splitlines(); ids={json.loads(l)['id'] for l in old}
new=[];bad=0;seen=set()
for f in sorted(glob.glob('w/out_*.jsonl')):
    for l in open(f,encoding='utf-8'):
        try: d=json.loads(l)
        except ValueError: bad+=1; continue
        r=rows.get(d['id'])
        if not r or d['id'] in ids or d['id'] in seen: bad+=1; continue
        facts=[[r['answer'].find(x),r['answer'].find(x)+len(x)] for x in d['facts'] if x and x in r['answer']]
        if not facts or len(d['question'])<6: bad+=1; continue
        seen.add(d['id'])
        new.append(json.dumps(dict(id=d['id'],question=d['question'].strip(),facts=facts,entry=hashlib.sha256(r['answer'].encode()).hexdigest()[:8]),ensure_ascii=False))
print(len(old),len(new),bad)
import collections
print(collections.Counter(rows[json.loads(l)['id']]['language'] for l in new))
allr=sorted(old+new,key=lambda l:json.loads(l)['id']) if old==sorted(old,key=lambda l:json.loads(l)['id']) else old+new
open('user_questions.new.jsonl','w',encoding='utf-8').write('\n'.join(allr)+'\n')
