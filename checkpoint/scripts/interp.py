"""interp.py A OUT: weights between C (0) and ft4 (1)"""
import sys,json,shutil
from pathlib import Path
sys.path.insert(0,'/work/exp/wint')
import torch
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.training.onnx_export import export
a,out=float(sys.argv[1]),Path(sys.argv[2]); W=Path('/work/exp/wt/evaluator/weights')
if out.exists(): shutil.rmtree(out)
shutil.copytree('/work/exp/cand4',out)
net=t5.load(W,check_folder(W),t5.built); c={k:v.clone() for k,v in net.state_dict().items()}
n=torch.load('ft4/ema.pt',map_location='cpu')
net.load_state_dict({k:(c[k]+a*(n[k]-c[k]) if c[k].is_floating_point() else n[k]) for k in n})
t5.save(net,out); print(export(out))
