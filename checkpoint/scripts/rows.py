import pickle,sys,time
from pathlib import Path
from evaluator.training import train as T
from evaluator.training.train import *
opt=TrainOptions(seed=7,minutes=60,rows=10**6,init='EXP/p6raw',batch_tokens=6144,train_length=256,frozen_layers=4,judgements=10000)
data=Path('EXP/data')
t=time.time()
known,held,key=divided_records(data,opt,print)
judged,judged_held=judgements(data,opt,key)
network,tokenizer=beginning(known,opt,print)
rows=PairTokenizer(tokenizer,opt.train_length)
relevance=of_pairs(pairs_of(known,opt.seed,varied=True),rows)
others=of_judgements(judged,rows)
check=held_back_rows(held,judged_held,rows,opt)
pickle.dump((relevance,others,check,len(known)),open('EXP/rows7.pkl','wb'),4)
print(time.time()-t,len(relevance),len(others),len(check))
for name,gs in (('rel',relevance),('oth',others)):
    c=Counter((r.task,r.language,r.source if 'natural' in r.kind else '*',r.kind) for g in gs for r in g)
    for k,v in sorted(c.items()): print(k,v)
