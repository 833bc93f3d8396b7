"""g_jud.py SEED: judgement groups of one seed"""
import pickle,sys,time
from pathlib import Path
from evaluator.training.train import *
seed=int(sys.argv[1])
opt=TrainOptions(seed=seed,init='EXP/ck',train_length=384,judgements=50000)
data=Path('EXP/data'); t=time.time()
tokenizer=Tokenizer.from_file('ROOT/evaluator/weights/encoder/tokenizer.json')
judged,_=judgements(data,opt,records.by_article)
print(time.time()-t,len(judged),flush=True)
others=of_judgements(judged,PairTokenizer(tokenizer,opt.train_length))
pickle.dump(others,open(f'EXP/gjud{seed}.pkl','wb'),4)
print(time.time()-t,len(others))
c=Counter((r.task,r.language,r.source if 'natural' in r.kind else '*',r.kind) for g in others for r in g)
for k,v in sorted(c.items()): print(k,v)
