import conf4; from conf4 import *
def rows2(f,nm,cfg):
    out=[]
    for l in open(f):
        r=json.loads(l)
        if r['cfg']!=cfg: continue
        x=feats(r)
        if x: out.append((x,right(r),r['half'],r['lang'],nm,r))
    return out
R=rows2('h_new.jsonl','users','self')+rows2('a_sw.jsonl','answers','t35')
X=np.array([r[0] for r in R]); y=np.array([r[1] for r in R]); h=np.array([r[2] for r in R]); s=np.array([r[4] for r in R]); L=np.array([r[3] for r in R])
print(len(R),{(k,a):(int(((s==k)&(h==a)).sum()),round(float(y[(s==k)&(h==a)].mean()),2)) for k in ('users','answers') for a in('tuned','reported')})
for ix in ([0],[0,1],[0,1,4]):
    t=h=='tuned'; w=np.where(s=='users',1,1.)
    c=LogisticRegression(C=1e3).fit(X[t][:,ix],y[t]); z=c.predict_proba(X[:,ix])[:,1]
    print([NM[i] for i in ix],np.round(c.coef_[0],3),np.round(c.intercept_,3))
    for k in('users','answers'):
        for a in('tuned','reported'):
            m=(s==k)&(h==a); b=lambda lo,hi:f'{y[m&(z>=lo)&(z<hi)].sum()}/{(m&(z>=lo)&(z<hi)).sum()}'
            print('   ',k,a,'AUC',round(roc_auc_score(y[m],z[m]),3),'Brier',round(float(np.mean((z[m]-y[m])**2)),3),'>=.8',b(.8,2),'.7-.8',b(.7,.8),'.5-.7',b(.5,.7),'.3-.5',b(.3,.5),'<.3',b(-1,.3))
