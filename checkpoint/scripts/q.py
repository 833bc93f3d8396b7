import pickle,json,numpy as np
fus=json.load(open('nC/fusion.json')); pool=json.load(open('nC/thresholds.json'))['pool']
for n in('sel_train','sel_held2'):
    for l in('en','zh'):
        g,c=[],[]
        for ll,k,gold,rows in pickle.load(open(n+'.pkl','rb')):
            if ll!=l: continue
            v=np.array(rows); p=np.clip((v[:,0]+1)/2,1e-9,1-1e-9); z=np.clip(np.log(p/(1-p)),-9,9); near=v[:,1]; more=np.maximum(v[:,2]-fus['free'],0)
            f=fus['scale']*(z+20*near+2*np.minimum(z,0)*more)+fus['shift']
            x=(pool['scale']*f+pool['standing']*(near-np.median(near))+pool['shift']).max(); g.append(2/(1+np.exp(-x))-1); c.append(gold is not None)
        g,c=np.array(g),np.array(c)
        print(n,l,'covered quantiles .05 .1 .12 .2',np.round(np.quantile(g[c],[.05,.1,.12,.2]),3),{t:(round((g[c]>=t).mean(),3),round((g[~c]>=t).mean(),3)) for t in(-.6,-.7,-.75,-.8,-.85,-.9)})
