"""sel.py WEIGHTS CACHE OUT FILE MOST SEED: per question pool: T5 probability, near, again, fused score"""
import sys,pickle; sys.path.insert(0,'EXP')
import cachelib
w,c,o,f,most,seed=sys.argv[1:7]
mem,vec,save=cachelib.install(c)
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
from benchmarks.evaluator.manuals import pools
asked=pools(Path(f),int(most),int(seed))
base=S.load_scorer(read_settings(weights=Path(w)),fused=False); sim=S.load_similarity(read_settings(weights=Path(w)))
pairs=[(a.question,u) for a in asked for u in a.units]; print(len(asked),len(pairs),flush=True)
p=[]
for s in range(0,len(pairs),512): p+=S.scores_of(base)('relevance',pairs[s:s+512]); save() if s%4096==0 else 0
cs=sim.of(pairs); it=iter(zip(p,cs))
out=[(a.language,a.kind,a.gold,[(x,*y) for x,y in (next(it) for _ in a.units)]) for a in asked]
pickle.dump(out,open(o,'wb')); print('done')
