"""calib.py WEIGHTS CACHE wrong_incorrect ambiguous: selfcrag-evaluator calibrate with cached readings"""
import sys; sys.path.insert(0,'EXP')
import cachelib
w,c,wi,am,wc=sys.argv[1:6]
cachelib.install(c)
from pathlib import Path
import evaluator.commands as K
K.calibrate(weights=Path(w),data=Path('EXP/data'),questions=None,most=700,seed=1,ambiguous_cost=float(am),wrong_correct_cost=float(wc),wrong_incorrect_cost=float(wi),least_precision=0.0,least_incorrect_precision=0.0,strips_kept=.95)
