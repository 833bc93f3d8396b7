import pickle,numpy as np,sys
from sklearn.linear_model import LogisticRegression
rows,out=pickle.load(open('EXP/needvec.pkl','rb'))
X=out['new']; m=[r[2]=='train' for r in rows]; X=X[m]; R=[r for r in rows if r[2]=='train']
y=[r[1]=='[Retrieval]' for r in R]; w=[({'en':1.5,'zh':3.}[r[4]] if t else 1.) for r,t in zip(R,y)]
c=LogisticRegression(C=3.,max_iter=300).fit(X,y,w); print(c.n_iter_)
np.save('EXP/ck6/need.npy',np.append(c.coef_[0],c.intercept_).astype(np.float32))
