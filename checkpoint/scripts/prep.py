"""pairs and judgements of the project's data, encoded; user groups with e5's cosines"""
import sys,pickle,time,random,gzip,json,collections
from pathlib import Path
sys.path.insert(0,'/work/exp/wt')
from evaluator.training import train as T
from evaluator.training.relevance_pairs import pairs_of
from evaluator.model.tokenization import PairTokenizer
W=Path('/work/exp/wt/evaluator/weights'); D=Path('/work/exp/data')
t=time.time()
from evaluator.training.train import TrainOptions
o=TrainOptions(seed=31,init=str(W),judgements=10000,group=5,train_length=320)
log=lambda s:print(time.strftime('%H:%M:%S'),s,flush=True)
known,held,key=T.divided_records(D,o,log)
users=[r for r in known if r.source.endswith(', users')]
log(f'users {len(users)}')
import hashlib
from collections import Counter
cnt=Counter(r.source for r in known if r.question)
def keep(r):
    n=cnt[r.source]
    share=1 if n<=2500 else 100*2500*(n/2500)**.35/n
    return int(hashlib.sha256((r.source+r.title+('' if r.title else r.passage)+'z').encode()).hexdigest()[:6],16)%10000 < 100*share if n>2500 else True
known=[r for r in known if r.source.endswith(', users') or keep(r)]
log(f'{len(known)} kept, '+str(Counter(r.source for r in known if r.question)))
judged,judged_held=T.judgements(D,o,key); log('judgements')
from tokenizers import Tokenizer
tok=Tokenizer.from_file(str(W/'tokenizer.json')); rows=PairTokenizer(tok,o.train_length)
gen=[r for r in known if not r.source.endswith(', users')]
pairs=pairs_of(gen,o.seed,varied=True); log(f'{len(pairs)} pairs')
rel=T.of_pairs(pairs,rows); log('encoded')
oth=T.of_judgements(judged,rows); log('judged encoded')
check=T.held_back_rows([r for r in held if not r.source.endswith(', users')],judged_held,rows,o); log('check')
pickle.dump((rel,oth,check),open('/work/exp/prep.pkl','wb'),4); log('done')
