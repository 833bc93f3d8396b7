import pickle,sys,time
from pathlib import Path
from evaluator.training import train as T
from evaluator.training.train import *
opt=TrainOptions(seed=7,minutes=60,rows=10**6,init='EXP/p6raw',batch_tokens=6144,train_length=256,frozen_layers=4,judgements=50000)
data=Path('EXP/data')
t=time.time()
network,tokenizer=beginning([],opt,print)
judged,judged_held=judgements(data,opt,records.by_article)
print(time.time()-t,len(judged))
rows=PairTokenizer(tokenizer,opt.train_length)
others=of_judgements(judged,rows)
pickle.dump(others,open('EXP/others7.pkl','wb'),4)
print(time.time()-t,len(others))
c=Counter((r.task,r.language,r.source if 'natural' in r.kind else '*',r.kind) for g in others for r in g)
for k,v in sorted(c.items()): print(k,v)
