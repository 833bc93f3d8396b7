import sys,asyncio; sys.path.insert(0,'/work/exp/wint')
import numpy as np
from pathlib import Path
from functools import partial
from benchmarks.evaluator.actions import retrieved,_best_grades,_loaded,action_figures,GradedQuestions
from benchmarks.evaluator.relevance import Bench,in_pools,TESTS
from evaluator.inference.scorer import load_scorer,scores_of
from evaluator.model.checkpoint import load_thresholds
from evaluator.settings import EvaluatorSettings,WEIGHTS
s=load_scorer(EvaluatorSettings(weights=WEIGHTS,threads=2)); t=load_thresholds(WEIGHTS)
b=Bench(Path('/work/shared/data'),partial(scores_of(s),'relevance'),in_pools(s,t.pool),None,int(sys.argv[1]),1)
e,g=_loaded(); print(WEIGHTS)
from sklearn.metrics import roc_auc_score
for n in TESTS:
    a=asyncio.run(retrieved(b,n,e,g)); best=_best_grades(b.grade,a); gold=np.array([x.has_gold for x in a])
    np.save(f'/work/exp/act_{n}.npy',np.stack([best,gold]))
    print(n,len(a),'auc',round(roc_auc_score(gold,best),3))
    for u,l in((-.266,-.279),(-.352,-.403),(-.4,-.41),(-.461,-.508),(-.6,-.61),(0,0),(-.1,-.1)):
        f=action_figures(GradedQuestions(best,gold),u,l); print('  ',u,l,'acc %.3f needless %.3f amb %.3f'%(f['accuracy'],f['needless_searches'],f['ambiguous_share']),flush=True)
