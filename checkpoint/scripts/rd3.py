"""rd.py WEIGHTS OUT: readings of calibration questions (T5 p, near, again)"""
import sys,pickle,time
sys.path.insert(0,'/work/exp/wint')
from pathlib import Path
from functools import partial
from evaluator.data import records
from evaluator.data.calibration_questions import build_questions
from evaluator.inference.scorer import load_scorer,load_similarity,scores_of
from evaluator.settings import EvaluatorSettings
W=Path(sys.argv[1]); D=Path(sys.argv[3] if len(sys.argv)>3 else '/work/exp/caldata3')
_,held=records.split(records.read_folder(D),records.HELD_BACK_PERCENT)
q=build_questions(held,1,int(sys.argv[4])); print(len(q),flush=True)
s=EvaluatorSettings(weights=W,threads=2)
sc=partial(scores_of(load_scorer(s,fused=False)),'relevance'); sim=load_similarity(s)
pairs=list(dict.fromkeys((x.question,p) for x in q for p in [*x.passages,*x.strips,*x.other_strips]))
t=time.time(); a=list(sc(pairs)); print('T5',len(pairs),time.time()-t,flush=True); c=sim.of(pairs)
pickle.dump((q,{p:((x+1)/2,n,g) for p,x,(n,g) in zip(pairs,a,c)}),open(sys.argv[2],'wb')); print(time.time()-t)
