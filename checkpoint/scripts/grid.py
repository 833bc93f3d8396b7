import pickle,json,numpy as np
old=json.load(open('ROOT/evaluator/weights/figures.json'))['held']
def load(p):
    r=pickle.load(open(p,'rb')); cells={}
    for l,k,right,a,b in r: cells.setdefault((l,k),[right,[],[]]); cells[l,k][1].append(a); cells[l,k][2].append(b)
    return {k:(v[0],np.array(v[1]),np.array(v[2])) for k,v in cells.items()}
T=load('EXP/nC_acc_test.out'); C=load('EXP/nC_bars.out')
def fig(D,s,u): return {k:float(((a>=s)&(b>=u)).mean() if r else 1-((a>=s)&(b>=u)).mean()) for k,(r,a,b) in D.items()}
best=[]
for s in np.round(np.arange(.1,.62,.02),2):
    for u in np.round(np.arange(1.4,3.1,.1),1):
        f=fig(T,s,u); low={f'{l} {k}':round(v-old[f'acceptance {l} {k}'],3) for (l,k),v in f.items() if v<old[f'acceptance {l} {k}']-1e-9}
        c=fig(C,s,u); q=sum(np.mean([v for (l,k),v in c.items() if l==L and C[l,k][0]==R]) for L in('en','zh') for R in(True,False))/4
        qr=min(v for (l,k),v in c.items() if C[l,k][0])
        best.append((len(low),s,u,round(q,3),round(qr,3),low))
best.sort(key=lambda x:(x[0],-x[3]))
for b in best[:14]: print(b)
print('by calibration:',[b for b in sorted(best,key=lambda x:-x[3])[:4]])
