"""fus.py WEIGHTS OUT: T5 probability and cosines of twins made of held-back training records (training wordings)"""
import sys,pickle; sys.path.insert(0,'EXP')
import cachelib
w,o=sys.argv[1:3]
cachelib.install('EXP/nCF.pkl')
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
from evaluator.data import records
import benchmarks.evaluator.kinds as K
from evaluator.data.synthetic.contrasts import WORDINGS
K.WORDINGS=WORDINGS
data=Path('EXP/data'); rs=[r for r in records.read_folder(data) if r.question and r.source!='manual_train']
key=records.division(records.read_folder(data),6); held=records.divided(rs,key,6)[1]
pairs=[]
N=int(sys.argv[3])
for l in('en','zh'):
    mine=[r for r in held if r.language==l]
    for kind,made in sorted(K.twins(mine,l,1).items()):
        for a,b in made[:N]: pairs.append((l,kind,a,b))
print(len(pairs),flush=True)
sc=S.scores_of(S.load_scorer(read_settings(weights=Path(w)),fused=False)); sim=S.load_similarity(read_settings(weights=Path(w)))
flat=list(dict.fromkeys([p for _,_,a,b in pairs for p in(a,b)])); print(len(flat),flush=True)
t=dict(zip(flat,sc('relevance',flat))); c=dict(zip(flat,sim.of(flat)))
pickle.dump([(l,k,(t[a],*c[a]),(t[b],*c[b])) for l,k,a,b in pairs],open(o,'wb'))
