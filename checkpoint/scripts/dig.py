import sys,json
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
w=Path(sys.argv[1]); d=json.load(open(w/'thresholds.json'))
s=S.load_scorer(read_settings(weights=w),fused=False); d['evaluator']=s.digest; json.dump(d,open(w/'thresholds.json','w'),indent=1); print(s.digest[:30],d)
