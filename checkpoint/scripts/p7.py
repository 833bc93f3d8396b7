"""p7.py MINUTES OUT [compile]"""
import pickle,sys,time
from pathlib import Path
from evaluator.training import train as T
from evaluator.training.train import *
minutes=float(sys.argv[1]); out=Path(sys.argv[2]); out.mkdir(exist_ok=True,parents=True)
opt=TrainOptions(seed=7,minutes=minutes,rows=10**6,init='EXP/p6raw',batch_tokens=6144,train_length=256,frozen_layers=4,judgements=50000,warmup_steps=50,check_every=800,
  shares={"relevance":.44,"support":.37,"utility":.16,"evidence":.02,"need":.01})
data=Path('EXP/data')
torch.manual_seed(opt.seed)
network,tokenizer=beginning([],opt,print)
before=earlier_runs(network.config.made_by)
relevance,_,check,nknown=pickle.load(open('EXP/rows7.pkl','rb'))
others=pickle.load(open('EXP/others7.pkl','rb'))
rng=random.Random(7)
counts=Counter(r.kind for g in relevance for r in g)
TW={'answer removed','roles exchanged','negated','name exchanged','number exchanged','nobody knows','neighbour parameter','only points'}
def some(group):
    first,rest=group[:1],list(group[1:])
    twins=[r for r in rest if r.kind not in NATURAL and r.kind!='unanswerable']
    if twins and len(rest)>=opt.group:
        w=[counts[t.kind]**-.5*(1.5 if t.kind in('answer removed','negated','roles exchanged') else 1) for t in twins]
        t=rng.choices(twins,w)[0]; first+=(t,); rest.remove(t)
    return first+tuple(rng.sample(rest,min(opt.group-len(first),len(rest))))
def weight(group):
    kinds={r.kind for r in group}
    return 5 if 'roles exchanged' in kinds else 2 if 'answer removed' in kinds else 1
rel=[g for g in relevance for _ in range(weight(g))]
drawn=evened(rel,len(relevance)//2,rng,repeats=1)
chosen=[some(g) for g in drawn]
parts=defaultdict(list)
nat=defaultdict(list)
for g in others:
    p=part_of(g[0])
    (nat if g[0].kind.startswith('natural') and p in('support','utility') else parts)[p].append(g)
rows=sum(map(len,chosen))/opt.shares['relevance']
for part in opt.shares:
    if part=='relevance': continue
    for pool,share in ((parts,.82 if nat[part] else 1),(nat,.18)):
        if pool[part]:
            n=rows*opt.shares[part]*share
            d=evened(pool[part],round(n),rng)
            each=sum(map(len,d))/max(1,len(d))
            chosen+=rng.sample(d,min(len(d),round(n/each)))
rng.shuffle(chosen)
k=Counter(f"{r.task}: {r.kind}" for g in chosen for r in g)
for a,b in sorted(k.items()): print(a,b)
print(sum(k.values()),'rows')
del relevance,others,rel
check=sampled(check,2)
learner=Evaluating(network,sampled(check,1),opt)
if len(sys.argv)>3:
    network.t5.encoder.encoder=torch.compile(network.t5.encoder.encoder,dynamic=True)
log=lambda s:print(time.strftime('%H:%M:%S'),s,flush=True)
identity={"options":asdict(opt),"data":records.digests(data)}
story=fit(learner,chosen,opt,out/'run.ckpt',identity,log)
if len(sys.argv)>3: sys.exit()
network.config.made_by={**identity,"training":{"records":nknown,**story,"temperature":json.load(open('EXP/ck6/config.json'))['made_by']['training']['temperature'],"before":before},"kinds":dict(sorted(k.items())),"validation":validation(network,check)}
t5.save(network,out); tokenizer.save(str(out/'tokenizer.json'))
print(summary(network.config.made_by['validation']))
