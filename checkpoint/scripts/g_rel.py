"""g_rel.py SEED: relevance groups of one seed, as tokens"""
import pickle,sys,time,re,random
from pathlib import Path
from dataclasses import replace
import evaluator.training.relevance_pairs as RP
from evaluator.training.train import *
seed=int(sys.argv[1])
RP.TWINS=4
opt=TrainOptions(seed=seed,rows=10**6,init='EXP/ck',train_length=384,judgements=10000)
data=Path('EXP/data'); t=time.time()
known,held,key=divided_records(data,opt,print)
tokenizer=Tokenizer.from_file('ROOT/evaluator/weights/encoder/tokenizer.json')
rows=PairTokenizer(tokenizer,opt.train_length)
pairs=pairs_of(known,seed,varied=True)
print(time.time()-t,len(pairs),flush=True)
SP=re.compile(r"\s*([,;:()\[\]!?\"–—]|(?<!\d)[.](?=\s|$)|'s\b)\s*")
def spaced(s): return None if s is None else re.sub(r' +',' ',SP.sub(r' \1 ',s)).strip()
out=[]
for p in pairs:
    r=random.Random(f'printed {seed} {p.group}').random()
    if p.language=='en' and r<.3:
        p=replace(p,question=p.question.lower().rstrip('?. '))
        if r<.18:
            title,mark,body=p.passage.rpartition(RP.TITLE_MARK)
            p=replace(p,passage=title+mark+spaced(body),answer=spaced(p.answer))
    elif p.language=='zh' and r<.1: p=replace(p,question=p.question.rstrip('?？。 '))
    out.append(p)
rel=of_pairs(out,rows)
check=None
if seed==11:
    _,judged_held=judgements(data,opt,key)
    check=held_back_rows(held,judged_held,rows,opt)
pickle.dump((rel,check,len(known)),open(f'EXP/grel{seed}.pkl','wb'),4)
print(time.time()-t,len(rel),sum(map(len,rel)))
c=Counter((r.task,r.language,r.kind) for g in rel for r in g)
for k,v in sorted(c.items()): print(k,v)
