"""fus3.py WEIGHTS CACHE OUT held|test N: T5 probability, span margin and cosines of twins"""
import sys,pickle; sys.path.insert(0,'EXP')
import cachelib
w,c,o,which,N=sys.argv[1:6]; N=int(N)
mem,vec,save=cachelib.install(c)
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
from evaluator.data import records
import benchmarks.evaluator.kinds as K
from evaluator.data.synthetic.contrasts import WORDINGS
pairs=[]
if which=='held':
    K.WORDINGS=WORDINGS
    data=Path('EXP/data'); rs=[r for r in records.read_folder(data) if r.question and r.source!='manual_train']
    key=records.division(records.read_folder(data),6); held=records.divided(rs,key,6)[1]
    for l in('en','zh'):
        for kind,made in sorted(K.twins([r for r in held if r.language==l],l,1).items()):
            for a,b in made[:N]: pairs.append((l,kind,a,b))
else:
    for name,l in K.TESTS.items():
        for kind,made in sorted(K.twins(K.read_file(K.file_of(Path('EXP/bdata'),name)),l,1).items()):
            for a,b in made[:N]: pairs.append((l,kind,a,b))
sc=S.load_scorer(read_settings(weights=Path(w)),fused=False); sim=S.load_similarity(read_settings(weights=Path(w)))
flat=list(dict.fromkeys([p for _,_,a,b in pairs for p in(a,b)])); print(len(pairs),len(flat),flush=True)
rows=sc.encode('relevance',flat); keys=[(sc.digest[:20],'relevance',r.ids) for r in rows]
print('cached',sum(k in mem for k in keys),flush=True)
t={}
for s in range(0,len(flat),64):
    for p,r in zip(flat[s:s+64],sc.forward('relevance',rows[s:s+64])): t[p]=r.score
m={p:mem.get(('span',)+k,float('nan')) for p,k in zip(flat,keys)}
c=dict(zip(flat,sim.of(flat)))
pickle.dump([(l,k,(t[a],m[a],*c[a]),(t[b],m[b],*c[b])) for l,k,a,b in pairs],open(o,'wb'))
