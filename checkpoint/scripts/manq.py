import pickle,json,sys,numpy as np
from sklearn.metrics import roc_auc_score as A
w=sys.argv[1]; fus=json.load(open(w+'/fusion.json')); t=json.load(open(w+'/thresholds.json')); pool=t['pool']
for n in sys.argv[2:]:
    for l in('en','zh'):
        g,c,r,G=[],[],[],[]
        for ll,k,gold,rows in pickle.load(open(n+'.pkl','rb')):
            if ll!=l: continue
            v=np.array(rows); p=np.clip((v[:,0]+1)/2,1e-9,1-1e-9); z=np.clip(np.log(p/(1-p)),-9,9); near=v[:,1]; more=np.maximum(v[:,2]-fus['free'],0)
            f=fus['scale']*(z+fus['similarity']*(near-fus['repetition']*more)+fus['doubt']*np.minimum(z,0)*more)+fus['shift']
            x=pool['scale']*f+pool['standing']*(near-np.median(near))+pool['shift']; g.append(2/(1+np.exp(-x.max()))-1); c.append(gold is not None); r.append(f.argmax()==gold)
        g,c,r=map(np.array,(g,c,r)); q=np.quantile(g[c],.116)
        print(n,l,'first',r[c].mean().round(3),'covered correct',(g[c]>=t['upper']).mean().round(3),'uncovered',(g[~c]>=t['upper']).mean().round(3),'bar for .884',q.round(3),'uncovered there',(g[~c]>=q).mean().round(3),'auc',round(A(r,g),3),'cov',round(A(c,g),3))
