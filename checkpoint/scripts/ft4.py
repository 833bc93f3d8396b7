"""ft.py SECONDS OUT LR: C goes on with users' questions, fused with e5's cosine in the loss"""
import sys,pickle,time,random,json,os,math
from pathlib import Path
from collections import Counter,defaultdict
sys.path.insert(0,'/work/exp/wt')
import numpy as np, torch
from torch import nn
from evaluator.training import train as T
from evaluator.model import t5
from evaluator.model.t5 import autocast
from evaluator.model.checkpoint import check_folder
from evaluator.model.tokenization import PairTokenizer,REFLECTION_TOKENS
from evaluator.schema import Row,LABELS
from tokenizers import Tokenizer
seconds,out,lr=float(sys.argv[1]),Path(sys.argv[2]),float(sys.argv[3]); out.mkdir(exist_ok=True,parents=True)
SIM,REP,DOUBT,FREE,SCALE,SHIFT=60.,.5,8.,.13,.383,-2.85
SEED=int(os.environ.get('SEED','1')); UW=float(os.environ.get('UW','1.0')); USHARE=float(os.environ.get('USHARE','.36'))
torch.set_num_threads(2); torch.manual_seed(SEED); rng=random.Random(SEED)
W=Path('/work/exp/wt/evaluator/weights')
rel,oth,check=pickle.load(open('prep.pkl','rb'))
users=pickle.load(open('users.pkl','rb'))
tok=Tokenizer.from_file(str(W/'tokenizer.json')); enc=PairTokenizer(tok,320)
opts=T.TrainOptions(seed=SEED,init=str(W),group=5,frozen_layers=3,learning_rate=lr,dropout=.05,span_weight=.5,
  shares={"relevance":.56,"support":.24,"utility":.13,"evidence":.04,"need":.03})
EMPH={'answer removed':3.,'negated':3.,'roles exchanged':1.5}
def some(group,most,counts,r):
    chosen,rest=list(group[:1]),list(group[1:])
    for _ in range(2):
        tw=[x for x in rest if x.kind not in T.NATURAL]
        if tw and len(chosen)+len(rest)>most:
            w=[(EMPH.get(x.kind,1.) if x.language=='en' else (1.5 if x.kind in EMPH else 1.))/counts[x.kind]**.5 for x in tw]
            p=r.choices(tw,w)[0]; chosen.append(p); rest.remove(p)
    return (*chosen,*r.sample(rest,min(most-len(chosen),len(rest))))
T._some=some
class U:  # a row of a user's question
    __slots__=('ids','task','label','language','source','kind','start','end','near','again')
def urows(g,v,take):
    """gold first, `take` negatives"""
    n=len(v['pairs']); own=[i for i in range(1,n)]
    w=[3. if i<=5 else 1. for i in own]  # BM25's first more often
    pick=[0]
    # hardest by cosine more often
    c=v['cos']; order=sorted(own,key=lambda i:-c[i][0])
    hard=order[:4]
    for i in rng.sample(hard,min(len(hard),(take+1)//2)): pick.append(i)
    rest=[i for i in own if i not in pick]
    pick+=rng.sample(rest,min(len(rest),take-len(pick)+1))
    rows=enc.encode('answer',[v['pairs'][i] for i in pick]); o=[]
    for i,row in zip(pick,rows):
        if not isinstance(row,Row): 
            if i==0: return None
            continue
        u=U(); u.ids=row.ids; u.task='relevance'; u.label=int(i!=0); u.language=g['language']; u.source='users'; u.kind='user'
        u.near,u.again=v['cos'][i]
        u.start,u.end=T.placed(row,v['pairs'][i][1],v['fact']) if i==0 else (0,0)
        if i==0 and v['fact'] and u.start==T.UNKNOWN_PLACE: return None
        o.append(u)
    return tuple(o)
known=[g for g in users if not g['held']]; heldu=[g for g in users if g['held']]
net=t5.load(W,check_folder(W),t5.built)
net.load_state_dict(torch.load('ft3/ema.pt',map_location='cpu'))
L=T.Evaluating(net,T.sampled([r for r in check],1),opts)
parts=L.groups(); learnt=[p for x in parts for p in x['params']]
optim=torch.optim.AdamW(parts,lr=lr,weight_decay=.01,fused=True)
ema=[p.detach().clone() for p in learnt]
REL,IRR=map(REFLECTION_TOKENS.index,LABELS['relevance'])
def fused(margin,near,again):
    m=margin.clamp(-9,9); more=(again-FREE).clamp(min=0)
    return m+SIM*(near-REP*more)+DOUBT*m.clamp(max=0)*more
def stream():
    rng.seed(4977)
    epoch=0; ul=[]; first=True
    while True:
        random.seed(SEED*100+epoch)
        o=T.TrainOptions(**{**{f:getattr(opts,f) for f in opts.__dataclass_fields__},'seed':SEED+29500+1000*epoch})
        gen=T.mixed(rel,oth,o); gen=[g for g in gen if T.longest(g)<=300]
        epoch+=1
        N=900
        for f in range(0,len(gen),N):
            part=gen[f:f+N]; tokens=sum(len(r.ids) for g in part for r in g)
            want=tokens*USHARE/(1-USHARE); ug=[]
            while want>0:
                if not ul:
                    now=list(known)
                    if os.path.exists('users_extra.pkl'):
                        try: now+=[g for g in pickle.load(open('users_extra.pkl','rb')) if not g['held']]
                        except Exception: pass
                    ul=rng.sample(now,len(now)); print('users epoch',len(ul),flush=True)
                g=ul.pop(); vs=[v for v in g['rows'] if len(v['pairs'])>2]
                if not vs: continue
                v=rng.choice(vs); got=urows(g,v,4)
                if got and len(got)>1: ug.append(got); want-=sum(len(r.ids) for r in got)
            allg=sorted(part+ug,key=T.longest); bs=[];cur=[];n=0
            for g in allg:
                k=(len(g)+sum(map(len,cur)))*T.longest(g)
                if cur and k>4096: bs.append(cur);cur=[]
                cur.append(g)
            if cur: bs.append(cur)
            rng.shuffle(bs); yield from bs
def loss_of(batch):
    rows=[r for g in batch for r in g]
    logits,spans=L._read(rows)
    own=torch.zeros(len(rows),len(REFLECTION_TOKENS),dtype=torch.bool)
    for n,r in enumerate(rows): own[n,T.places(r.task)]=True
    logits=logits.float().masked_fill(~own,-1e9)
    right=torch.tensor([T.places(r.task).start+r.label for r in rows])
    isu=torch.tensor([isinstance(r,U) for r in rows])
    total=L._spans(rows,spans)
    gg=[g for g in batch if not isinstance(g[0],U)]
    if gg:
        total=total+nn.functional.cross_entropy(logits[~isu],right[~isu])*float((~isu).float().mean()) + L._listwise(gg,logits[~isu])*len(gg)/len(batch)
    lu=torch.zeros(())
    if isu.any():
        ur=[r for r in rows if isinstance(r,U)]; lg=logits[isu]; m=lg[:,REL]-lg[:,IRR]
        ev=fused(m,torch.tensor([r.near for r in ur]),torch.tensor([r.again for r in ur]))
        z=SCALE*ev+SHIFT; y=torch.tensor([1.-r.label for r in ur])
        bce=nn.functional.binary_cross_entropy_with_logits(z,y,pos_weight=torch.tensor(5.))
        lw=[];k=0
        for g in batch:
            if isinstance(g[0],U):
                zz=ev[k:k+len(g)]*.6; lw.append(zz.logsumexp(0)-zz[0]); k+=len(g)
        lu=UW*(bce*float(isu.float().mean())+torch.stack(lw).mean()*len(lw)/len(batch))
        total=total+lu
    return total,float(lu.detach() if hasattr(lu,"detach") else lu)
@torch.inference_mode()
def val():
    net.eval(); fig={}
    for l in('en','zh'):
        gs=[g for g in heldu if g['language']==l][:110]; hit=n=0; tp=[];mx=[]
        r2=random.Random(3)
        for g in gs:
            v=g['rows'][0]; ids=[0]+sorted(range(1,len(v['pairs'])),key=lambda i:-v['cos'][i][0])[:7]
            rows=[r for r in enc.encode('answer',[v['pairs'][i] for i in ids])]
            if not all(isinstance(r,Row) for r in rows): continue
            i,mk=T.batch_tensors(rows)
            with autocast(i.device): lo,_=net(i,mk)
            lo=lo.float(); m=lo[:,REL]-lo[:,IRR]
            e=fused(m,torch.tensor([v['cos'][i][0] for i in ids]),torch.tensor([v['cos'][i][1] for i in ids]))
            hit+=int(e.argmax())==0; n+=1; tp.append(float(e[0])); mx.append(float(e[1:].max()))
        from sklearn.metrics import roc_auc_score
        fig['user '+l]=dict(figure=round(hit/n,3)); fig['uauc '+l]=dict(figure=round(float(roc_auc_score([1]*n+[0]*n,tp+mx)),3)); fig['umed '+l]=dict(figure=round(float(np.median(tp)),2)); fig['nmed '+l]=dict(figure=round(float(np.median(mx)),2))
    fig.update(T.validation(net,L.check)); net.train()
    return ', '.join(f"{k} {v['figure']:.3f}" for k,v in fig.items())
net.train(); t0=time.time(); step=rows=0; ls=[];us=[]; tl=t0;rl=0; nextv=time.time()
print('start',flush=True)
t0=tl=time.time(); nextv=time.time()+2000; nexts=time.time()+600
torch.set_flush_denormal(True)
def swap():
    for p,e in zip(learnt,ema): p.data,e.data=e.data,p.data
for batch in stream():
    used=(time.time()-t0)/seconds
    if used>=1: break
    for x in optim.param_groups: x['lr']=lr*min(1.02-used,(step+1)/40)
    if step%5==0: torch.set_num_threads(int(open('threads').read()))
    loss,u=loss_of(batch); optim.zero_grad(set_to_none=True); loss.backward(); nn.utils.clip_grad_norm_(learnt,1.); optim.step()
    with torch.no_grad(): torch._foreach_lerp_(ema,learnt,1-min(.996,(step+1)/(step+10)))
    ls.append(float(loss.detach())); us.append(u); step+=1; rows+=sum(map(len,batch))
    if step%40==0:
        now=time.time(); print(time.strftime('%H:%M:%S'),f'step {step} rows {rows} loss {np.mean(ls):.4f} user {np.mean(us):.4f} {(rows-rl)/(now-tl):.1f} rows/s',flush=True); ls=[];us=[];tl=now;rl=rows
        if os.environ.get('TRY'): break
    if time.time()>nexts and not os.environ.get('TRY'):
        with torch.no_grad(): swap()
        torch.save({k:t.clone() for k,t in net.state_dict().items()},out/'ema.pt')
        if time.time()>nextv: print(time.strftime('%H:%M:%S'),'ema',val(),flush=True); nextv=time.time()+99999
        with torch.no_grad(): swap()
        nexts=time.time()+600
with torch.no_grad(): swap()
if not os.environ.get('TRY'):
    torch.save(net.state_dict(),out/'ema.pt'); print(time.strftime('%H:%M:%S'),'final ema',val(),flush=True)
    json.dump(dict(steps=step,rows_seen=rows,minutes=(time.time()-t0)/60,lr=lr),open(out/'run.json','w'))
