import pickle,numpy as np,warnings; warnings.filterwarnings('ignore')
from sklearn.linear_model import LogisticRegression
rows,out=pickle.load(open('needvec.pkl','rb'))
X=out['new']; y=np.array([r[1]=='[Retrieval]' for r in rows]); g=np.array([r[2] for r in rows]); k=np.array([r[3] for r in rows]); l=np.array([r[4] for r in rows])
tr=g=='train'
old={'en':dict(held=.8311,kh=.7737,analysis=.7091,coding=.625,recommendation=.8737),'zh':dict(held=.8199,kh=.7945,analysis=.7386,coding=.5172,recommendation=.9384)}
for C in (2,3,5):
    for we,wz in ((1.5,2.5),(1.5,3),(1.5,3.5),(1.7,3)):
        sw=np.where(y,np.where(l=='en',we,wz),1.)
        c=LogisticRegression(C=C,max_iter=300).fit(X[tr],y[tr],sample_weight=sw[tr]); s=c.decision_function(X); o=[]
        for lang in 'en','zh':
            for name,m in (('held',(g=='held')),('kh',g=='kind-held'),('analysis',k=='analysis'),('coding',k=='coding'),('recommendation',k=='recommendation')):
                mm=m&(l==lang); a=((s[mm]>0)==y[mm]).mean(); o.append('%s%s %.3f'%('*' if a<old[lang][name]-5e-5 else '',name,a))
        print(C,we,wz,' '.join(o),flush=True)
