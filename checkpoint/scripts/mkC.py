import json,torch,sys
from pathlib import Path
from safetensors.torch import load_file
from evaluator.training.train import *
src,out=sys.argv[1],Path(sys.argv[2]); out.mkdir(exist_ok=True,parents=True)
data=Path('EXP/data')
cfg=json.load(open('EXP/gpu/init/config.json')); net=EvaluatorModel(ModelConfig(**cfg))
net.load_state_dict(t5.unpacked({**t5.word_table(Path('EXP/gpu/init')),**load_file(src)}),strict=False)
net.eval(); net.t5.set_attn_implementation('eager')
tok=Tokenizer.from_file('EXP/ck/tokenizer.json')
rep1=json.load(open('EXP/gout/1/report.json'));rep2=json.load(open('EXP/gout/2/report.json'))
usable=records.read_folder(data); key=records.division(usable,6); known,held=records.divided(usable,key,6)
t=time.time()
temp=temper(net,PairTokenizer(tok,384),build_questions(held,11,QUESTIONS)); print(temp,time.time()-t,flush=True)
B=[r for r in rep1['runs'] if r['name']=='B'][0]; C=rep2['runs'][0]
net.config.made_by={"options":{"seed":11,"init":"e5","layers":12,"vocabulary":48000,"learning_rate":2e-4,"dropout":0.1,"batch_tokens":49152,"train_length":384,"group":6,"languages":["en","zh"],"judgements":50000,"shares":dict(relevance=.46,support=.34,utility=.16,evidence=.03,need=.01)},
 "data":records.digests(data),"training":{"records":len(known),"device":"NVIDIA H100","rows_seen":B['rows']+C['rows'],"minutes":round((B['seconds']+C['seconds'])/60,2),"temperature":temp,"before":[]},"validation":{}}
t5.save(net,out); tok.save(str(out/'tokenizer.json'))
