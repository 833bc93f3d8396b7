import pickle,json,numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score as A
fus=json.load(open('nC/fusion.json')); pool=json.load(open('nC/thresholds.json'))['pool']
def feats(path):
    X,y,L,C=[],[],[],[]
    for lang,kind,gold,rows in pickle.load(open(path,'rb')):
        v=np.array(rows); p=np.clip((v[:,0]+1)/2,1e-9,1-1e-9); z=np.clip(np.log(p/(1-p)),-9,9); near,again=v[:,1],v[:,2]
        more=np.maximum(again-fus['free'],0); ev=z+fus['similarity']*(near-fus['repetition']*more)+fus['doubt']*np.minimum(z,0)*more
        f=fus['scale']*ev+fus['shift']
        g=pool['scale']*f+pool['standing']*(near-np.median(near))+pool['shift']
        i=int(f.argmax()); o=np.sort(f)[::-1]; zo=np.sort(z)[::-1]
        X.append([near[i]-np.median(near), z[i], f[i], o[0]-o[1], z[i]-np.median(z), f[i]-np.median(f), near[i], g.max(), near[i]-np.delete(near,i).max(), z[i]-np.delete(z,i).max()]); y.append(gold==i); L.append(lang); C.append(gold is not None)
    return np.array(X),np.array(y),np.array(L),np.array(C)
N=['standing','z','f','f gap','z-med','f-med','near','grade','near gap','z gap']
X,y,L,C=feats('sel_held.pkl'); Xt,yt,Lt,Ct=feats('sel_train.pkl')
for n,i in zip(N,range(len(N))): print(n,*(f'{l} held {A(y[L==l],X[L==l,i]):.3f} train {A(yt[Lt==l],Xt[Lt==l,i]):.3f};' for l in('en','zh')))
for combo in((0,1),(0,2),(0,3),(0,5),(0,4),(0,9),(0,3,5),(0,3,4),(0,1,3),(0,8,9),(0,1,8,9),tuple(range(10))):
    s=Xt[:,combo].mean(0),Xt[:,combo].std(0); m=LogisticRegression(C=1).fit((Xt[:,combo]-s[0])/s[1],yt); p=m.predict_proba((X[:,combo]-s[0])/s[1])[:,1]
    print([N[i] for i in combo],*(f'{l} {A(y[L==l],p[L==l]):.3f}' for l in('en','zh')),np.round(m.coef_[0],2))
print('accuracy of first among covered',{l:(y[(L==l)&C].mean().round(3),y[L==l].mean().round(3)) for l in('en','zh')})
for l in('en','zh'):
    for i in(0,3,5):
        o=np.argsort(-X[L==l,i]); yy=y[L==l][o]; print(l,N[i],'precision at 10,20,30,40 %:',[round(yy[:int(len(yy)*q)].mean(),3) for q in(.1,.2,.3,.4)])
