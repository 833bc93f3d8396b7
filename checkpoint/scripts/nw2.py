import pickle,numpy as np
o=pickle.load(open('nowhere.pkl','rb'))
def arr(k):
    v=np.array(o[k],dtype=float); p=np.clip((v[:,3]+1)/2,1e-9,1-1e-9); return v,np.log(p/(1-p))
def f1(k,g,bar):
    v,z=arr(k); keep=v[:,1]+g*z>bar; a=v[:,0]==1
    return ((v[a,2]*keep[a]).sum()+(~keep[~a]).sum())/len(v), (v[a,2]*keep[a]).mean(), (~keep[~a]).mean() if (~a).any() else float('nan')
from sklearn.metrics import roc_auc_score as A_
A=lambda *x: np.float64(A_(*x))
for k in o:
    v,z=arr(k)
    if v[:,0].min()<1:
        print(k,'auc margin',A(v[:,0],v[:,1]).round(3),'rel',A(v[:,0],z).round(3),[ (g,A(v[:,0],v[:,1]+g*z).round(3)) for g in(.25,.5,1,2,4)])
for g in(0,.25,.5,1,2,4,100):
    best=max(((f1(('en_squad2_half','rest'),g,b)[0],b) for b in np.arange(-4,10,.25)*(max(1,g))))
    b=best[1]; print(g,'bar',b,'rest',np.round(f1(('en_squad2_half','rest'),g,b),3),'test',np.round(f1(('en_squad2_half','test'),g,b),3),'known',np.round(f1(('en_squad2_half','known'),g,b),3),'drcd',np.round(f1(('zh_drcd','test'),g,b)[1],3),'cmrc',np.round(f1(('zh_cmrc2018_train','test'),g,b)[1],3))
for g in (0,.5,1,2):
  for b in(0,1,2): print(g,b,[np.round(f1((n,w),g,b),3) for n,w in(('en_squad2_half','rest'),('en_squad2_half','test'),('zh_drcd','test'))])
