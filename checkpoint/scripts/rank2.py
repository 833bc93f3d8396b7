import pickle,sys,numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
rows=pickle.load(open('rank_%s.pkl'%sys.argv[1],'rb'))
def feats(P):
    lg,near,again,sc,k,_=P.T; med=np.median(near); 
    return dict(t5=np.clip(lg,-9,9),near=near,stand=near-med,again=again,score=sc,rank=1/(k+1),t5m=lg-lg.max(),t5med=lg-np.median(lg))
def go(rows,names,lang=None):
    R=[r for r in rows if lang is None or r[0]==lang]; 
    res=[]
    for h in ('tuned','reported'):
        tr=[r for r in R if r[1]!=h and r[3][:,5].any()]; te=[r for r in R if r[1]==h]
        X=np.vstack([np.stack([feats(r[3])[n] for n in names],1) for r in tr]); y=np.concatenate([r[3][:,5] for r in tr])
        m,s=X.mean(0),X.std(0); c=LogisticRegression(C=1).fit((X-m)/s,y)
        for r in te:
            z=((np.stack([feats(r[3])[n] for n in names],1)-m)/s)@c.coef_[0]
            res.append((z,r[3][:,5]))
    first=[y[np.argmax(z)] for z,y in res if y.any()]; two=[y[np.argsort(-z)[:3]].any() for z,y in res if y.any()]
    best=[z.max() for z,_ in res]; has=[y.any() for _,y in res]
    return f'{names} first {np.mean(first):.3f} in3 {np.mean(two):.3f} n {len(first)} answerable-AUC {roc_auc_score(has,best):.3f} pairAUC {roc_auc_score(np.concatenate([y for _,y in res]),np.concatenate([z for z,_ in res])):.3f}'
for lang in('en','zh'):
    print(lang)
    for names in(['t5'],['near'],['score'],['rank'],['t5','near','again'],['t5','stand','near','again'],['t5','near','again','score'],['t5','near','again','rank'],['t5','stand','near','again','score','rank'],['near','again','score','rank'],['t5','stand','near','again','score','rank','t5med']):
        print(' ',go(rows,names,lang))
