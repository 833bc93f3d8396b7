import sys; sys.path.insert(0,'EXP')
import cachelib; cachelib.install('EXP/nCfin.pkl')
from functools import partial
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
from benchmarks.evaluator.relevance import *
from benchmarks.evaluator.relevance import Bench,in_pools,training_records
from benchmarks.evaluator.actions import on_actions
from evaluator.model.checkpoint import load_thresholds
w=Path(sys.argv[1]); s=S.load_scorer(read_settings(weights=w)); t=load_thresholds(w)
b=Bench(Path('EXP/bdata'),partial(S.scores_of(s),'relevance'),in_pools(s,t.pool),None,120,1); tr=training_records(Path('EXP/bdata'))
for up,lo in((-.7,-.75),(-.75,-.8),(-.8,-.85),(-.85,-.9)):
    a=on_actions(b,tr,t.model_copy(update=dict(upper=up,lower=lo)))
    print(up,lo,{k:(v['accuracy'],v['needless_searches'],v['ambiguous_share']) for k,v in a.items() if isinstance(v,dict)},flush=True)
