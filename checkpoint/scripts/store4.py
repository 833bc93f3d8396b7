"""store.py WEIGHTS RD c1 c2 c3 [bars]: fusion.json, thresholds.json and card from cached readings"""
import sys,json
sys.argv0=sys.argv; W,rd,*c=sys.argv[1:]; bars_wanted='bars' in c; c=[float(x) for x in c if x!='bars']
sys.argv=['x',rd]; exec(open('/work/exp/docal4.py').read().split("if __name__")[0])
from pathlib import Path
import evaluator.commands as C
from evaluator.inference import scorer as I
from evaluator.model import checkpoint as CK
W=Path(W)
res,ths,g=run(sim=45.,costs=(tuple(c),))
w=res['w'] 
(W/'fusion.json').write_text(json.dumps(w.model_dump(),indent=2)+'\n')
s=C._settings(W)
sc=I.scores_of(I.load_scorer(s,fused=False))
kept='/work/exp/bars.json'
import os,time
t0=time.time()
if bars_wanted:
    bars=C._bars(Path('/work/exp/caldata3'),1,1600//8,sc); bars['retrieval']=C._retrieval_bar(I.scores_of(I.load_scorer(s))); json.dump(bars,open(kept,'w')); print('bars',bars,time.time()-t0)
else: bars=json.load(open(kept)) if os.path.exists(kept) else dict(support=.46,utility=2.1,retrieval=.23)
stored=ths[0].model_copy(update={'source':'data','pool':res['pool'],**bars})
print(TH.store(stored,W)); 
import evaluator.calibration.model_card as M; print(M.write_card(W))
