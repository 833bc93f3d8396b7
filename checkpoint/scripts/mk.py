import torch,json,sys,shutil
from pathlib import Path
from evaluator.training.train import *
name=sys.argv[1]; out=Path(sys.argv[2]); out.mkdir(exist_ok=True,parents=True)
opt=TrainOptions(seed=7,init='EXP/p7')
net,tok=beginning([],opt,print)
net.load_state_dict(torch.load(f'EXP/soup_{name}.pt'))
t5.save(net,out); tok.save(str(out/'tokenizer.json'))
