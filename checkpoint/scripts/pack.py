"""pack.py: grel*.pkl gjud*.pkl -> rows/*.npy, meta.json, check.npz, one tar.xz a seed set"""
import pickle,json,sys,glob,os
import numpy as np
from evaluator.training.train import *
from evaluator.schema import TASKS,LABELS
rs,js=sys.argv[1].split(','),sys.argv[2].split(',')
groups=[];check=None
for s in rs:
    r,c,_=pickle.load(open(f'grel{s}.pkl','rb')); groups+=r; check=check or c
nrel=len(groups)
if check is None: check=[r for g in groups[:600]+groups[-600:] for r in g]
seen=set()
for s in js:
    for g in pickle.load(open(f'gjud{s}.pkl','rb')):
        if len(g)==1:
            k=(g[0].ids,g[0].label)
            if k in seen: continue
            seen.add(k)
        groups.append(g)
print(nrel,len(groups),sum(map(len,groups)))
PARTS=['relevance','support','utility','evidence','need']
kinds=sorted({r.kind for g in groups for r in g}|{r.kind for r in check}); ki={k:i for i,k in enumerate(kinds)}
sources=sorted({r.source for g in groups for r in g}|{r.source for r in check}); si={k:i for i,k in enumerate(sources)}
langs=['en','zh']
os.makedirs('rows',exist_ok=True)
def arrays(rows):
    at=np.zeros(len(rows)+1,np.int64); at[1:]=np.cumsum([len(r.ids) for r in rows])
    ids=np.empty(int(at[-1]),np.uint16)
    for i,r in enumerate(rows): ids[at[i]:at[i+1]]=r.ids
    return dict(ids=ids,at=at,task=np.array([TASKS.index(r.task) for r in rows],np.uint8),label=np.array([r.label for r in rows],np.uint8),kind=np.array([ki[r.kind] for r in rows],np.uint8),start=np.array([r.start for r in rows],np.int16),end=np.array([r.end for r in rows],np.int16))
rows=[r for g in groups for r in g]
a=arrays(rows)
a['gat']=np.concatenate([[0],np.cumsum([len(g) for g in groups])]).astype(np.int64)
a['glang']=np.array([langs.index(g[0].language) for g in groups],np.uint8)
a['gsource']=np.array([si[g[0].source] for g in groups],np.uint8)
a['gpart']=np.array([PARTS.index(part_of(g[0])) for g in groups],np.uint8)
for k,v in a.items(): np.save(f'rows/{k}.npy',v)
json.dump(dict(kinds=kinds,sources=sources,langs=langs,parts=PARTS,first=[REFLECTION_TOKENS.index(LABELS[t][0]) for t in TASKS],count=[len(LABELS[t]) for t in TASKS]),open('rows/meta.json','w'))
# check rows in groups
rng=random.Random(0); cg=[];cur=[]
rel=[r for r in check if r.task=='relevance']
for r in rel:
    if r.label==0 or r.kind=='unanswerable' or not cur: cur=[]; cg.append(cur)
    cur.append(r)
pick=rng.sample(cg,min(4500,len(cg)))
oth=[r for r in check if r.task!='relevance']; pick+=[[r] for r in rng.sample(oth,min(6000,len(oth)))]
rows=[r for g in pick for r in g]; c=arrays(rows)
c['group']=np.repeat(np.arange(len(pick)),[len(g) for g in pick]); c['lang']=np.array([langs.index(r.language) for r in rows],np.uint8); c['source']=np.array([si[r.source] for r in rows],np.uint8)
np.savez('rows/check.npz',**c)
print('check',len(rows),Counter((r.task,r.language) for r in rows))
print({k:v.nbytes/1e6 for k,v in a.items()})
