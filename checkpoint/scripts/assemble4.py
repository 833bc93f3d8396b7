"""assemble.py RUN OUT: weights folder of a fine-tuned state"""
import sys,json,shutil
from pathlib import Path
sys.path.insert(0,'/work/exp/wint')
import torch
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.training.onnx_export import export
run,out=Path(sys.argv[1]),Path(sys.argv[2]); W=Path('/work/exp/wt/evaluator/weights')
if out.exists(): shutil.rmtree(out)
shutil.copytree(W,out)
net=t5.load(W,check_folder(W),t5.built)
net.load_state_dict(torch.load(run/'ema.pt',map_location='cpu'))
(out/'thresholds.json').unlink()
t5.save(net,out); print(export(out)); 
