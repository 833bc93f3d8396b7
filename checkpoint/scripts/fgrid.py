import pickle,numpy as np,sys
R=pickle.load(open('EXP/nC_fus.out','rb'))
cells={}
for l,k,a,b in R: cells.setdefault((l,k),[]).append((*a,*b))
cells={k:np.array(v) for k,v in cells.items()}
def ev(t,near,again,sim,rep,doubt,free):
    p=np.clip((t+1)/2,1e-9,1-1e-9); lg=np.clip(np.log(p/(1-p)),-9,9); more=np.maximum(again-free,0)
    return lg+sim*(near-rep*more)+doubt*np.minimum(lg,0)*more
def rates(*w): return {k:float((ev(*v[:,3:].T,*w)>=ev(*v[:,:3].T,*w)).mean()) for k,v in cells.items()}
cur=rates(20,0,2,.13); t5=rates(0,0,0,.13)
print('mean',np.mean(list(cur.values())),'t5',np.mean(list(t5.values())))
for k in cells: print(k,len(cells[k]),round(cur[k],3),'t5',round(t5[k],3))
best=[]
for sim in (4,6,8,10,12,14,17,20,25):
  for rep in (0,.3,.6,.9):
    for doubt in (0,2,4,8):
      for free in (.05,.13,.2):
        r=rates(sim,rep,doubt,free); best.append((np.mean(list(r.values())),np.mean([max(0,r[k]-cur[k]) for k in r]),sim,rep,doubt,free,r))
best.sort(key=lambda x:x[0])
for b in best[:12]: print([round(float(x),4) for x in b[:6]],{k:round(b[6][k],3) for k in b[6] if k in(('en','answer removed'),('en','negated'),('en','roles exchanged'),('en','neighbour sentence'))})
