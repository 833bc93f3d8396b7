"""train_gpu.py NAME LR DROPOUT SECONDS SEED [TOKENS]: trains on packed rows on one GPU.

SEEN on an H100: .55 s a step of 49,152 tokens in two parts, whether one process ran or two: bound by launches of
small kernels from the CPU (reading: 21 to 26 ms a batch of 65k tokens whatever its shape), not by the GPU. So: one
part, 160,000 tokens or more a step, one process, rate 3e-4; better still CUDA graphs over fixed shapes or
torch.compile. Smoke of the run must print rows/s and a torch.profiler table BEFORE the long run begins.
"""
import sys,time,random,json,os,math
import numpy as np, multiprocessing as mp
HERE=os.path.dirname(os.path.abspath(__file__)); sys.path.insert(0,HERE)
DATA=os.environ.get('ROWS','/tmp/rows'); OUT=os.environ.get('OUT','/tmp/out')
SHARES=dict(relevance=.46,support=.34,utility=.16,evidence=.03,need=.01)
GROUP=6
def loaded():
    a={n:np.load(f'{DATA}/{n}.npy',mmap_mode='r' if n=='ids' else None) for n in('ids','at','task','label','kind','start','end','gat','glang','gsource','gpart')}
    meta=json.load(open(f'{DATA}/meta.json'))
    return a,meta
def drawer(a,meta,seed):
    """endless lists of groups (tuples of row numbers), a round at a time"""
    rng=random.Random(seed); kinds=meta['kinds']
    natural={i for i,k in enumerate(kinds) if k in('positive','words','same article','same passage','random','neighbour','unanswerable')}
    more={i for i,k in enumerate(kinds) if k in('answer removed','negated','roles exchanged')}
    heavy={i for i,k in enumerate(kinds) if k=='roles exchanged'}; mid={i for i,k in enumerate(kinds) if k=='answer removed'}
    isnat={i for i,k in enumerate(kinds) if k.startswith('natural')}
    kind,gat=a['kind'],a['gat']; n=len(gat)-1
    rel=[g for g in range(n) if a['gpart'][g]==0]
    kc=np.bincount(kind)
    pools={}
    for g in range(n):
        p=meta['parts'][a['gpart'][g]]
        if p=='relevance':
            ks=set(kind[gat[g]:gat[g+1]].tolist())
            w=4 if ks&heavy else 2 if ks&mid else 1
        else: w=1
        nat=p in('support','utility') and int(kind[gat[g]]) in isnat
        pools.setdefault((p,nat),{}).setdefault((int(a['glang'][g]),int(a['gsource'][g])),[]).append((g,w))
    def evened(by,count,repeats):
        langs={}
        for (l,s),m in by.items(): langs.setdefault(l,{})[s]=m
        out=[]
        for l,src in langs.items():
            whole=len(langs)*sum(len(m)**.5 for m in src.values())
            for m in src.values():
                k=min(round(count*len(m)**.5/whole),repeats*len(m))
                out+=[g for g,_ in rng.choices(m,[w for _,w in m],k=k)] if m[0][1:] and any(w!=1 for _,w in m[:200]) else [g for g,_ in (rng.sample(m,len(m))*(k//len(m))+rng.sample(m,k%len(m)))]
        return out
    def some(g):
        rows=list(range(gat[g],gat[g+1]))
        first,rest=rows[:1],rows[1:]
        twins=[r for r in rest if int(kind[r]) not in natural]
        for _ in range(2):
            if twins and len(rest)+len(first)>GROUP:
                w=[kc[kind[t]]**-.5*(1.5 if int(kind[t]) in more else 1) for t in twins]
                t=rng.choices(twins,w)[0]; first.append(t); rest.remove(t); twins.remove(t)
        return tuple(first+rng.sample(rest,min(GROUP-len(first),len(rest))))
    while True:
        chosen=[some(g) for g in evened(pools['relevance',False],25000,1)]
        rows=sum(map(len,chosen))/SHARES['relevance']
        for part in('support','utility','evidence','need'):
            for nat,share in ((False,.82 if (part,True) in pools else 1.),(True,.18)):
                by=pools.get((part,nat))
                if not by: continue
                k=rows*SHARES[part]*share; d=[tuple(range(gat[g],gat[g+1])) for g in evened(by,round(k),2)]
                each=sum(map(len,d))/max(1,len(d)); chosen+=rng.sample(d,min(len(d),round(k/each)))
        rng.shuffle(chosen); yield chosen
def padded(a,rows):
    at,ids=a['at'],a['ids']; ln=np.array([at[r+1]-at[r] for r in rows]); m=np.zeros((len(rows),int(ln.max())),np.int32)
    for i,r in enumerate(rows): m[i,:ln[i]]=ids[at[r]:at[r+1]]
    return m,ln
def make(a,meta,groups,parts):
    """one batch: sub-batches sorted by length, and places"""
    rows=[r for g in groups for r in g]
    at=a['at']; ln=np.array([at[r+1]-at[r] for r in rows]); order=np.argsort(-ln,kind='stable')
    cum=np.cumsum(ln[order]); cuts=[0]+[int(np.searchsorted(cum,cum[-1]*(i+1)/parts))+1 for i in range(parts-1)]+[len(rows)]
    subs=[padded(a,[rows[j] for j in order[b:e]]) for b,e in zip(cuts,cuts[1:]) if e>b]
    back=np.argsort(order)
    task,label=a['task'][rows],a['label'][rows]
    first=np.array(meta['first'])[task]; n=np.array(meta['count'])[task]
    best=np.where(task==2,n-1,0)
    idx=[]; i=0
    for g in groups:
        k=len(g)
        if label[i]==best[i]:
            others=[j for j in range(i+1,i+k) if label[j]!=best[j]]
            if others: idx.append([i]+others)
        i+=k
    width=max(map(len,idx),default=1); li=np.full((len(idx),width),-1,np.int64)
    for j,x in enumerate(idx): li[j,:len(x)]=x
    ends=np.stack([a['start'][rows],a['end'][rows]],1).astype(np.int64)
    return dict(subs=subs,back=back,right=(first+label).astype(np.int64),first=first,n=n,best=(first+best).astype(np.int64),li=li,ends=ends[order],rows=len(rows),tokens=int(ln.sum()))
def feeder(q,a,meta,seed,tokens,parts):
    rng=random.Random(seed); at=a['at']
    for chosen in drawer(a,meta,seed):
        lon=lambda g:max(int(at[r+1]-at[r]) for r in g)
        tot=lambda g:sum(int(at[r+1]-at[r]) for r in g)
        bs=[]
        for f in range(0,len(chosen),4096):
            cur,used=[],0
            for g in sorted(chosen[f:f+4096],key=lon):
                t=tot(g)
                if cur and used+t>tokens: bs.append(cur); cur,used=[],0
                cur.append(g); used+=t
            if cur and used>tokens/2: bs.append(cur)
        rng.shuffle(bs)
        for b in bs: q.put(make(a,meta,b,parts))
def main():
    name,lr,drop,seconds,seed=sys.argv[1],float(sys.argv[2]),float(sys.argv[3]),float(sys.argv[4]),int(sys.argv[5])
    tokens=int(sys.argv[6]) if len(sys.argv)>6 else 160000
    parts=int(os.environ.get('SUBS','1'))
    a,meta=loaded()
    q=mp.get_context('fork').Queue(24); procs=[mp.get_context('fork').Process(target=feeder,args=(q,a,meta,seed*100+i,tokens,parts),daemon=True) for i in range(int(os.environ.get('FEED','4')))]
    for p in procs: p.start()
    import torch; from torch import nn
    import net as N
    dev=torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    torch.backends.cuda.matmul.allow_tf32=True
    from pathlib import Path
    cfg=json.load(open(HERE+'/init/config.json')); m=N.load(Path(HERE+'/init'),cfg).to(dev)
    if os.environ.get('STATE'): m.load_state_dict(torch.load(os.environ['STATE']))  # e.g. /tmp/B_final.pt
    for x in m.modules():
        if isinstance(x,nn.Dropout): x.p=drop
    words=m.t5.encoder.get_input_embeddings().weight; words.requires_grad_(False)
    known=[p for p in m.t5.encoder.parameters() if p.requires_grad]; ids={*map(id,known),id(words)}
    new=[p for p in m.parameters() if p.requires_grad and id(p) not in ids]
    learnt=known+new; rates=[lr,lr if os.environ.get('STATE') else 5e-4]
    opt=torch.optim.AdamW([dict(params=known,lr=lr),dict(params=new,lr=5e-4)],weight_decay=.01,fused=dev.type=='cuda')
    ema=[p.detach().clone() for p in learnt]
    m.train(); step=rows=0; losses=[]; hist=[]; t0=time.time(); tl=t0; rl=0; tk=0
    R=len(N.REFLECTION_TOKENS); ar=torch.arange(R,device=dev)
    T=lambda x:torch.from_numpy(np.ascontiguousarray(x)).to(dev,non_blocking=True)
    qwait=0.
    while True:
        used=(time.time()-t0)/seconds
        if used>=1: break
        tq=time.time(); b=q.get(); qwait+=time.time()-tq
        share=min(1-.98*used,(step+1)/300)
        for g,r in zip(opt.param_groups,rates): g['lr']=r*share
        lg,each=[],[]; ends=T(b['ends']); k=0
        for x,ln in b['subs']:
            x=T(x).long(); mask=(torch.arange(x.shape[1],device=dev)[None]<T(ln)[:,None]).long()
            with torch.autocast(dev.type,torch.bfloat16,enabled=dev.type=='cuda'): l,s=m(x,mask)
            lg.append(l); e=ends[k:k+len(x)]; k+=len(x)
            each.append(nn.functional.cross_entropy(s.float(),e,ignore_index=-100,reduction='none').sum(1))
        back=T(b['back']); lg=torch.cat(lg)[back].float(); each=torch.cat(each)
        f,n=T(b['first'])[:,None],T(b['n'])[:,None]
        lg=lg.masked_fill(~((ar[None]>=f)&(ar[None]<f+n)),-1e9)
        loss=nn.functional.cross_entropy(lg,T(b['right']))
        li=T(b['li'])
        if len(li):
            best=T(b['best'])[:,None]; mine=lg.gather(1,best)[:,0]
            marg=mine-lg.scatter(1,best,-1e9).logsumexp(1)
            z=marg[li.clamp(min=0)].masked_fill(li<0,-1e9)
            loss=loss+(z.logsumexp(1)-z[:,0]).mean()
        p,o=(ends[:,0]>0).float(),(ends[:,0]==0).float()
        loss=loss+.125*((each*p).sum()/p.sum().clamp(min=1)+(each*o).sum()/o.sum().clamp(min=1))
        opt.zero_grad(set_to_none=True); loss.backward()
        nn.utils.clip_grad_norm_(learnt,1.0)
        opt.step()
        with torch.no_grad(): torch._foreach_lerp_(ema,learnt,1-min(.999,(step+1)/(step+10)))
        losses.append(loss.detach()); step+=1; rows+=b['rows']; tk+=b['tokens']
        if step%(20 if dev.type=='cuda' else 2)==0:
            mean=torch.stack(losses).mean().item(); losses=[]; hist.append([step,round(mean,6)]); now=time.time()
            print(f'{name} {now-t0:.0f}s step {step} rows {rows} loss {mean:.4f} {(rows-rl)/(now-tl):.0f} rows/s {tk/(now-tl):.0f} tok/s wait {qwait:.1f}',flush=True); tl,rl,tk=now,rows,0
            if not math.isfinite(mean): print('BROKEN'); break
    for p in procs: p.terminate()
    torch.save({n:t.cpu() for n,t in m.state_dict().items()},f'/tmp/{name}_final.pt')
    with torch.no_grad():
        for p,e in zip(learnt,ema): p.copy_(e)
    torch.save({n:t.cpu() for n,t in m.state_dict().items()},f'/tmp/{name}_ema.pt')
    json.dump(dict(name=name,lr=lr,dropout=drop,steps=step,rows=rows,seconds=time.time()-t0,loss=hist),open(f'/tmp/{name}.json','w'))
    os._exit(0)
if __name__=='__main__': main()
