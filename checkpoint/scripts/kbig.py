"""kbig.py WEIGHTS CACHE OUT N: en twins of three kinds, fused scores"""
import sys,pickle; sys.path.insert(0,'EXP')
import cachelib
w,c,o,N=sys.argv[1:5]; N=int(N)
mem,vec,save=cachelib.install(c)
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
import benchmarks.evaluator.kinds as K
made=K.twins(K.read_file(K.file_of(Path('EXP/bdata'),'bench_en_qed')),'en',1)
print({k:len(v) for k,v in made.items()},flush=True)
pairs=[(k,a,b) for k in('answer removed','negated','roles exchanged') for a,b in made[k][:N]]
sc=S.scores_of(S.load_scorer(read_settings(weights=Path(w))))
flat=list(dict.fromkeys([p for _,a,b in pairs for p in(a,b)])); print(len(pairs),len(flat),flush=True)
t={}
for s in range(0,len(flat),256):
    t.update(zip(flat[s:s+256],sc('relevance',flat[s:s+256]))); print(s,flush=True)
    if s%2048==0: save()
pickle.dump([(k,t[a],t[b]) for k,a,b in pairs],open(o,'wb'))
