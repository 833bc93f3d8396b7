"""ft.py SECONDS OUT LR SEED: a fine-tune from C on two cores, English twins drawn more"""
import sys,time,random,json,os,math
import numpy as np
sys.path.insert(0,'EXP/gpu')
import importlib.util
spec=importlib.util.spec_from_file_location('tg','EXP/ckn/scripts/train_gpu.py'); os.environ['ROWS']='EXP/rows'
tg=importlib.util.module_from_spec(spec); spec.loader.exec_module(tg); tg.DATA='EXP/rows'
import torch; from torch import nn
import net as N
from pathlib import Path
from safetensors.torch import load_file
seconds,out,lr,seed=float(sys.argv[1]),Path(sys.argv[2]),float(sys.argv[3]),int(sys.argv[4]); out.mkdir(exist_ok=True,parents=True)
TOK=int(os.environ.get('TOK','4096')); FROZEN=int(os.environ.get('FROZEN','3')); CAP=int(os.environ.get('CAP','232'))
torch.set_num_threads(2); torch.manual_seed(seed)
a,meta=tg.loaded(); K={k:i for i,k in enumerate(meta['kinds'])}
kind,gat,at=a['kind'],a['gat'],a['at']; ln=np.diff(at); n=len(gat)-1
kc=np.bincount(kind,minlength=len(K))
natural={K[k] for k in('positive','words','same article','same passage','random','unanswerable')}
target={K['answer removed']:1.5,K['negated']:1.3,K['roles exchanged']:2.,K['name exchanged']:.7}
rng=random.Random(seed)
pools={}
gmax=np.maximum.reduceat(ln,gat[:-1])
for g in range(n):
    p=meta['parts'][a['gpart'][g]]; l=meta['langs'][a['glang'][g]]
    k=kind[gat[g]:gat[g+1]]
    if p in('support','utility') and meta['kinds'][k[0]].startswith('natural'): p+=' natural'
    if p!='relevance' and gmax[g]>CAP+40: continue
    key=(p,l)
    pools.setdefault(key,{}).setdefault(int(a['gsource'][g]),[]).append(g)
    if p=='relevance' and l=='en':
        ks=set(k.tolist())&set(target)
        # choose by the rarest target kind
        for t in ks: pools.setdefault(('twin',meta['kinds'][t]),{}).setdefault(int(a['gsource'][g]),[]).append(g)
def some(g,group,want=None):
    rows=list(range(gat[g],gat[g+1])); first,rest=rows[:1],rows[1:]
    if ln[rows[0]]>CAP+60: return None
    rest=[r for r in rest if ln[r]<=CAP+60]
    if want is not None:
        c=[r for r in rest if kind[r]==want]
        if not c: return None
        t=rng.choice(c); first.append(t); rest.remove(t)
    twins=[r for r in rest if int(kind[r]) not in natural]
    for _ in range(1 if want is not None else 2):
        if twins and len(rest)+len(first)>group:
            w=[kc[kind[t]]**-.5*target.get(int(kind[t]),1) for t in twins]
            t=rng.choices(twins,w)[0]; first.append(t); rest.remove(t); twins.remove(t)
    return tuple(first+rng.sample(rest,min(group-len(first),len(rest))))
def draw(key,count):
    src=pools[key]; whole=sum(len(m)**.5 for m in src.values()); o=[]
    for m in src.values(): o+=rng.choices(m,k=round(count*len(m)**.5/whole)+1)
    rng.shuffle(o); return o
MIX=[(('twin','answer removed'),.19),(('twin','negated'),.16),(('twin','roles exchanged'),.12),(('relevance','en'),.17),(('relevance','zh'),.13),
 (('support','en'),.09),(('support','zh'),.05),(('support natural','en'),.01),(('support natural','zh'),.01),(('utility','en'),.03),(('utility','zh'),.02),(('evidence','en'),.008),(('evidence','zh'),.006),(('need','en'),.003),(('need','zh'),.003)]
def rounds():
    while True:
        chosen=[]
        for key,share in MIX:
            got=0; want=share*12000
            for g in draw(key,int(want)+5):
                if key[0]=='twin': s=some(g,4,K[key[1]])
                elif key[0]=='relevance': s=some(g,5)
                else: s=tuple(range(gat[g],gat[g+1]))
                if not s: continue
                chosen.append(s); got+=len(s)
                if got>=want: break
        rng.shuffle(chosen); bs=[]
        for f in range(0,len(chosen),1500):
            cur,used=[],0
            for g in sorted(chosen[f:f+1500],key=lambda g:max(ln[r] for r in g)):
                t=int(sum(ln[r] for r in g))
                if cur and used+t>TOK: bs.append(cur); cur,used=[],0
                cur.append(g); used+=t
            if cur and used>TOK/2: bs.append(cur)
        rng.shuffle(bs); yield from bs
cfg=json.load(open('EXP/gpu/init/config.json')); m=N.load(Path('EXP/gpu/init'),cfg)
start=os.environ.get('START','EXP/C_ema.st')
m.load_state_dict(N.unpacked({**N.word_table(Path('EXP/gpu/init')),**load_file(start)}),strict=False)
if hasattr(m.t5,'set_attn_implementation'): m.t5.set_attn_implementation(os.environ.get('ATT','eager'))
for x in m.modules():
    if isinstance(x,nn.Dropout): x.p=.05
m.t5.encoder.embeddings.requires_grad_(False)
for i in range(FROZEN): m.t5.encoder.encoder.layer[i].requires_grad_(False)
learnt=[p for p in m.parameters() if p.requires_grad]
opt=torch.optim.AdamW(learnt,lr=lr,weight_decay=.01)
ema=[p.detach().clone() for p in learnt]
R=len(N.REFLECTION_TOKENS); ar=torch.arange(R); T=torch.from_numpy
def save(name):
    torch.save({k:t for k,t in m.state_dict().items()},out/f'{name}.pt')
m.train(); t0=time.time(); tl=t0; rl=rows=tk=step=0; losses=[]; tr=os.environ.get('TRY')
for groups in rounds():
    used=(time.time()-t0)/seconds
    if used>=1: break
    b=tg.make(a,meta,groups,2)
    for g in opt.param_groups: g['lr']=lr*min(1.02-used,(step+1)/25)
    lg,each=[],[]; ends=T(np.ascontiguousarray(b['ends'])); k=0
    for x,l in b['subs']:
        x=T(x).long(); mask=(torch.arange(x.shape[1])[None]<T(l)[:,None]).long()
        lo,s=m(x,mask); lg.append(lo); e=ends[k:k+len(x)]; k+=len(x)
        each.append(nn.functional.cross_entropy(s.float(),e,ignore_index=-100,reduction='none').sum(1))
    back=T(b['back']); lg=torch.cat(lg)[back]; each=torch.cat(each)
    f,nn_=T(b['first'])[:,None],T(b['n'])[:,None]
    lg=lg.masked_fill(~((ar[None]>=f)&(ar[None]<f+nn_)),-1e9)
    loss=nn.functional.cross_entropy(lg,T(b['right']))
    li=T(b['li'])
    if len(li):
        best=T(b['best'])[:,None]; mine=lg.gather(1,best)[:,0]
        marg=mine-lg.scatter(1,best,-1e9).logsumexp(1)
        z=marg[li.clamp(min=0)].masked_fill(li<0,-1e9)
        loss=loss+(z.logsumexp(1)-z[:,0]).mean()
    p,o=(ends[:,0]>0).float(),(ends[:,0]==0).float()
    loss=loss+.125*((each*p).sum()/p.sum().clamp(min=1)+(each*o).sum()/o.sum().clamp(min=1))
    opt.zero_grad(set_to_none=True); loss.backward(); nn.utils.clip_grad_norm_(learnt,1.0); opt.step()
    with torch.no_grad(): torch._foreach_lerp_(ema,learnt,1-min(.99,(step+1)/(step+10)))
    losses.append(loss.item()); step+=1; rows+=b['rows']; tk+=b['tokens']
    if step%20==0 or (tr and step%5==0):
        now=time.time(); print(time.strftime('%H:%M:%S'),f'step {step} rows {rows} loss {np.mean(losses):.4f} {(rows-rl)/(now-tl):.1f} rows/s {tk/(now-tl):.0f} tok/s',flush=True); tl,rl,tk=now,rows,0; losses=[]
    if step%150==0 and not tr: save('state')
if not tr:
    save('final')
    with torch.no_grad():
        for p,e in zip(learnt,ema): p.copy_(e)
    save('ema'); json.dump(dict(steps=step,rows=rows,seconds=time.time()-t0,lr=lr),open(out/'run.json','w'))
