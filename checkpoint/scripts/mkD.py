"""mkD.py STATE.pt[,STATE2.pt] OUT: a state of ft.py (or the mean of two) tempered and saved as a raw folder (run with PYTHONPATH=EXP/wt)"""
import json,torch,sys,time
from pathlib import Path
from evaluator.training.train import *
src,out=sys.argv[1].split(','),Path(sys.argv[2]); out.mkdir(exist_ok=True,parents=True)
cfg=json.load(open('EXP/gpu/init/config.json')); net=EvaluatorModel(ModelConfig(**cfg))
states=[torch.load(s) for s in src]
net.load_state_dict({k:sum(s[k].float() for s in states)/len(states) for k in states[0]},strict=False)
net.eval(); net.t5.set_attn_implementation('eager')
tok=Tokenizer.from_file('ROOT/evaluator/weights/encoder/tokenizer.json')
data=Path('EXP/data'); usable=records.read_folder(data); key=records.division(usable,6); known,held=records.divided(usable,key,6)
temp=temper(net,PairTokenizer(tok,384),build_questions(held,11,QUESTIONS)); print(temp,flush=True)
made=json.load(open('EXP/ckn/config.json'))['made_by']; made['training']['before']=[made['training'].get('rows_seen')]
made['training'].update(temperature=temp,**{k:v for k,v in json.load(open(Path(src[0]).parent/'run.json')).items() if k in('rows','seconds')})
net.config.made_by=made
t5.save(net,out); tok.save(str(out/'tokenizer.json'))
