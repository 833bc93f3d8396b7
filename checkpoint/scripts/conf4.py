import json,re,sys,math
import numpy as np
from statistics import median
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
lg=lambda s:(lambda p:math.log(p/(1-p)))(min(max((s+1)/2,1e-6),1-1e-6))
def right(r): return bool(r['covered'] and r.get('gold') and re.search(r['gold'],r['body']['answer'],re.I))
NM='stand gcited gmargin simstand sim simmargin cited citedmargin support len'.split()
def feats(r):
    b=r['body']
    if b['stopped_by']=='no_evidence' or not b['citations']: return None
    st=b['strips']; P={}
    for s in st:
        if s.get('similarity') is not None: P[s['document_id']]=max(P.get(s['document_id'],-9),s['similarity'])
    src={s['id']:s for s in st}; c=src.get(b['citations'][0]['strip_id'])
    if c is None: return None
    D={x['id']:lg(x['score']) for x in b['documents']}; cd=c['document_id']
    if cd not in D or len(D)<3 or cd not in P: return None
    oth=[v for k,v in D.items() if k!=cd]; os=[v for k,v in P.items() if k!=cd] or [0]
    so=[lg(s['score']) for s in st if s['document_id']!=cd and s.get('score') is not None] or [0]
    sup=b['critique'][-1]['support'] if b['critique'] else 1
    return [D[cd]-median(D.values()),D[cd],D[cd]-max(oth),P[cd]-median(P.values()),P[cd],P[cd]-max(os),lg(c['score']),lg(c['score'])-max(so),sup or 0,math.log(1+len(b['answer']))]
def rows(f,nm):
    out=[]
    for l in open(f):
        r=json.loads(l)
        if r['cfg']!='self': continue
        x=feats(r)
        if x: out.append((x,right(r),r['half'],r['lang'],nm,r))
    return out
if __name__=='__main__':
    R=rows('h_new.jsonl','users')+rows('a_new.jsonl','answers'); X=np.array([r[0] for r in R]); y=np.array([r[1] for r in R]); h=np.array([r[2] for r in R]); s=np.array([r[4] for r in R])
    print(len(R),y.mean(),{k:(int((s==k).sum()),round(float(y[s==k].mean()),2)) for k in set(s)})
    for i,n in enumerate(NM): print(f'{n:10}',{k:round(roc_auc_score(y[s==k],X[s==k,i]),3) for k in set(s)})
    def cv(ix):
        z=np.zeros(len(y))
        for tr in('tuned','reported'):
            m,sd=X[h==tr][:,ix].mean(0),X[h==tr][:,ix].std(0)+1e-9; c=LogisticRegression(C=.5).fit((X[h==tr][:,ix]-m)/sd,y[h==tr]); z[h!=tr]=c.predict_proba((X[h!=tr][:,ix]-m)/sd)[:,1]
        return z
    for ix in ([0],[1],[0,1],[0,6],[1,6],[0,3],[0,4],[1,4],[0,1,4],[0,1,4,6],[1,4,6,7],[4,6],[4,6,7],list(range(len(NM)))):
        z=cv(ix); print([NM[i] for i in ix],'AUC',round(roc_auc_score(y,z),3),{k:round(roc_auc_score(y[s==k],z[s==k]),3) for k in set(s)},'Brier',round(float(np.mean((z-y)**2)),4),'bands .75+',f'{y[z>.75].sum()}/{(z>.75).sum()}','.35-.75',f'{y[(z>.35)&(z<=.75)].sum()}/{((z>.35)&(z<=.75)).sum()}','<',f'{y[z<=.35].sum()}/{(z<=.35).sum()}')
