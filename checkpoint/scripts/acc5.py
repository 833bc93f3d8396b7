import sys,json,pickle; sys.path.insert(0,'/work/exp/wint')
from pathlib import Path
from benchmarks.evaluator.kinds import *
from benchmarks.evaluator.kinds import MOST,WORDINGS,TESTS
from benchmarks.evaluator.ratchet import sign_test
from evaluator.inference.scorer import load_scorer,scores_of
from evaluator.settings import EvaluatorSettings
from evaluator.calibration.acceptance import AnswerBars,judged
materials=[]
for name in TESTS:
    read=(material_of(r,by_passage) for r in read_file(file_of(Path('/work/shared/data'),name))); materials+=[m for m in read if m]
made=cases(materials,1,MOST,WORDINGS); print(len(made),flush=True)
f=judged(made,scores_of(load_scorer(EvaluatorSettings(weights=Path('/work/exp/cand4'),threads=2),fused=False)))
pickle.dump((made,f.support,f.grade),open('acc5.pkl','wb'))
old=json.load(open('former_eval.json'))['acceptance']
RIGHTK={k for k,v in old['en'].items() if v['right']}
from benchmarks.evaluator.ratchet import digits
for b in ((.26,2.2),(.4,2.2),(.46,2.1),(.46,2.4),(.5,2.2),(.54,2.2),(.58,2.2),(.6,2.5)):
    out=[]
    for l in('en','zh'):
        for k in old[l]:
            rows=[i for i,c in enumerate(made) if (c.language,c.kind)==(l,k)]
            a=((f.support[rows]>=b[0])&(f.grade[rows]>=b[1])).astype(float); o=a if k in RIGHTK else 1-a
            was=old[l][k]['accepted']; now=a.mean(); worse=(now<was) if k in RIGHTK else (now>was)
            p=sign_test(old[l][k].get('outcomes'),digits(o)) if 'outcomes' in old[l][k] else None
            out.append(f"{l}:{'+' if k in RIGHTK else '-'}{k} {was:.2f}->{now:.2f}{' WORSE '+str(p) if worse else ''}")
    print(b,len([x for x in out if 'WORSE' in x]),'\n    ','; '.join(out),flush=True)
