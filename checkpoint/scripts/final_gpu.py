"""final_gpu.py NAMES...: check candidates and soups, write the best two packed into $OUT"""
import sys,os,json,time; HERE=os.path.dirname(os.path.abspath(__file__)); sys.path.insert(0,HERE)
import numpy as np,torch
from pathlib import Path
import net as N
from train_gpu import padded
DATA=os.environ.get('ROWS','/tmp/rows'); OUT=os.environ['OUT']
from sklearn.metrics import roc_auc_score
dev=torch.device('cuda' if torch.cuda.is_available() else 'cpu')
c=np.load(f'{DATA}/check.npz'); meta=json.load(open(f'{DATA}/meta.json'))
cfg=json.load(open(HERE+'/init/config.json')); m=N.load(Path(HERE+'/init'),cfg).to(dev).eval()
def read(limit=None):
    n=len(c['task']); at=c['at']; a=dict(at=at,ids=c['ids']); order=np.argsort(at[1:]-at[:-1])[:limit]
    lo=np.zeros((n,13),np.float32); sp=np.full((n,2),-1)
    with torch.inference_mode():
        for f in range(0,len(order),1024):
            rows=order[f:f+1024]; x,ln=padded(a,rows); x=torch.from_numpy(x).to(dev).long(); mask=(torch.arange(x.shape[1],device=dev)[None]<torch.from_numpy(ln).to(dev)[:,None]).long()
            with torch.autocast(dev.type,torch.bfloat16,enabled=dev.type=='cuda'): l,s=m(x,mask)
            lo[rows]=l.float().cpu().numpy(); sp[rows]=s.float().argmax(1).cpu().numpy()
    return lo,sp
def figures(lo,sp):
    out={}; task,label,kind,src=c['task'],c['label'],c['kind'],c['source']
    F,Cn=meta['first'],meta['count']
    s=np.zeros(len(task))
    for t in(0,1,2):
        r=task==t; z=lo[r][:,F[t]:F[t]+Cn[t]]; 
        if t==2:
            p=np.exp(z-z.max(1,keepdims=True)); p/=p.sum(1,keepdims=True); s[r]=p@np.array(N.UTILITY_WEIGHTS)
        else: s[r]=z[:,0]-z[:,-1]
        for k in np.unique(src[r]):
            q=r&(src==k)&(kind!=meta['kinds'].index('random')); lab=label[q]
            right=lab>=3 if t==2 else lab==0; wrong=lab<=1 if t==2 else lab==Cn[t]-1; u=right|wrong
            if right.any() and wrong.any() and u.sum()>40: out[f"{N.TASKS[t]} {meta['sources'][k]}"]=float(roc_auc_score(right[u],s[q][u]))
    for k in np.unique(src):
        q=(task==0)&(src==k)&(c['start']!=-100)
        if q.sum()>50:
            hit=(sp[q,0]==c['start'][q])&(sp[q,1]==c['end'][q]); an=c['start'][q]>0
            if an.sum()>20: out[f"span {meta['sources'][k]}"]=float(hit[an].mean())
    g=c['group']; first={}
    for i in range(len(task)):
        if task[i]==0 and label[i]==0: first.setdefault(g[i],i)
    acc={}
    for i in range(len(task)):
        if task[i]==0 and label[i]==1 and g[i] in first:
            acc.setdefault(f"twin {meta['langs'][c['lang'][i]]} {meta['kinds'][kind[i]]}",[]).append(s[first[g[i]]]>s[i])
    out.update({k:float(np.mean(v)) for k,v in acc.items() if len(v)>=30})
    return out
def score(f):
    by={}
    for k,v in f.items():
        w=k.split(); lang=w[1][:2]
        by.setdefault((w[0],lang),[]).append(v)
    return {f'{a} {b}':round(float(np.mean(v)),4) for (a,b),v in sorted(by.items())}
def setstate(s): m.load_state_dict({k:v.to(dev) for k,v in s.items()})
names=sys.argv[1:]; S={}
for n in names:
    for v in('final','ema'): S[f'{n}_{v}']=torch.load(f'/tmp/{n}_{v}.pt')
if len(names)>1:
    for v in('final','ema'): S[f'soup_{v}']={k:(sum(S[f'{n}_{v}'][k].float() for n in names)/len(names)).to(S[f'{names[0]}_{v}'][k].dtype) for k in S[f'{names[0]}_{v}']}
R={}
for n,s in S.items():
    t=time.time(); setstate(s); f=figures(*read()); sc=score(f); R[n]=dict(figures=f,score=sc)
    tot=float(np.mean([v for k,v in sc.items() if not k.startswith(('span','retr'))])); R[n]['total']=tot
    print(n,round(tot,5),sc,round(time.time()-t,1),flush=True)
order=sorted(R,key=lambda n:-R[n]['total']); print(order)
from safetensors.torch import save_file
for i,n in enumerate(order[:2]):
    setstate(S[n]); p={k:v.contiguous() for k,v in N.packed({k:v.cpu() for k,v in N.tensors(m).items()}).items() if not k.startswith(N.WORDS)}
    save_file(p,'/tmp/c.st'); d=open('/tmp/c.st','rb').read()
    for j in range(0,len(d),15*2**20): open(f'{OUT}/cand{i}_{n}.{j//(15*2**20)}','wb').write(d[j:j+15*2**20])
json.dump(dict(runs=[json.load(open(f'/tmp/{n}.json')) for n in names],checks=R,order=order),open(f'{OUT}/report.json','w'))
# speed of reading in bf16
if dev.type=='cuda':
    setstate(S[order[0]])
    for L,B in ((128,512),(256,256),(512,128)):
        x=torch.randint(30,40000,(B,L),device=dev); x[:,0]=4; x[:,12]=3; mask=torch.ones_like(x)
        with torch.inference_mode(),torch.autocast('cuda',torch.bfloat16):
            for _ in range(5): m(x,mask)
            torch.cuda.synchronize(); t=time.time()
            for _ in range(20): m(x,mask)
            torch.cuda.synchronize(); print(f'read {L} tokens, {B} rows: {20*B/(time.time()-t):.0f} rows/s',flush=True)
