"""ev5.py FOLDER...: acceptance on calibration's cases, users' held pools"""
import sys,pickle,random,json; sys.path.insert(0,'/work/exp/wint')
import numpy as np
from pathlib import Path
from importlib import import_module
from evaluator.calibration import acceptance as A
from evaluator.data import records
from evaluator.data.synthetic import material
from evaluator.data.synthetic.build import cases as mk
from evaluator.inference.scorer import load_scorer,scores_of
from evaluator.settings import EvaluatorSettings
from evaluator.inference.fusion import FusionWeights
MOST=int(sys.argv[1]); D=Path('/work/exp/caldata3'); P=records.HELD_BACK_PERCENT
cp='/work/exp/cases_%d.pkl'%MOST
import os
if os.path.exists(cp): cs=pickle.load(open(cp,'rb'))
else:
    key=records.division(records.read_folder(D),P)
    held=material.read_material(D,lambda g:records.held_back(g,P),key); cs=list(mk(held,1,MOST)); pickle.dump(cs,open(cp,'wb'))
users=[g for g in pickle.load(open('users.pkl','rb')) if g['held']]
fw=FusionWeights(similarity=45,repetition=.5,doubt=8,free=.13)
for f in sys.argv[2:]:
    s=scores_of(load_scorer(EvaluatorSettings(weights=Path(f),threads=2),fused=False))
    g=A.judged(cs,s); b=A.choose_bars(g)
    for bars in (b,A.AnswerBars(.46,2.1),A.AnswerBars(.6,2.5)):
        acc=g.accepted(bars); r={(c.language,c.kind):c.right for c in cs}
        print(f,bars,' '.join(f"{l}:{'+' if r[l,k] else '-'}{k}={v:.2f}" for (l,k),v in acc.items()),flush=True)
    out={}
    for l in('en','zh'):
        hit=n=0
        for q in [x for x in users if x['language']==l][:100]:
            v=q['rows'][0]; ids=[0]+sorted(range(1,len(v['pairs'])),key=lambda i:-v['cos'][i][0])[:7]
            sc=s('relevance',[v['pairs'][i] for i in ids]); e=[fw.evidence((x+1)/2,*v['cos'][i]) for x,i in zip(sc,ids)]
            hit+=int(np.argmax(e))==0; n+=1
        out[l]=round(hit/n,3)
    print(f,'users first',out,flush=True)
