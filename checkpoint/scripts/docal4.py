"""docal.py RD [sim rep doubt free chinese]: fits and thresholds by costs"""
import sys,pickle,json
sys.path.insert(0,'/work/exp/wint')
import numpy as np
from evaluator.calibration import fusion as F, thresholds as TH
from evaluator.inference.fusion import FusionWeights
from sklearn.metrics import roc_auc_score
q,known=pickle.load(open(sys.argv[1],'rb'))
r=F.Readings.__new__(F.Readings); r._known=known
r.score=lambda p:[]; 
class S: 
    def of(self,p): return []
r.similarity=S()
def run(sim=60.,rep=.5,doubt=8.,free=.13,zh=0.,costs=((1,1,.45),(.5,3,.4)),verbose=True):
    r._known={k:(p,n+(zh if any('\u4e00'<=c<='\u9fff' for c in k[0]) else 0),g) for k,(p,n,g) in known.items()}
    w=FusionWeights(similarity=sim,repetition=rep,doubt=doubt,free=free)
    w=F.fit(q,r,w); pool=F.fit_pool(q,r,w); g=r.grade_with(w,pool)
    best={}
    out={}
    for l in('en','zh'):
        mine=[x for x in q if x.language==l]
        b=[max(g(x)) for x in mine]; y=[x.answered for x in mine]
        f=[ (lambda s:x.labels[int(np.argmax(s))])(g(x)) for x in mine if x.answered]
        out[l]=(round(roc_auc_score(y,b),4),round(float(np.mean(f)),4),len(mine))
    res=dict(w=w,pool=pool,auc=out)
    if verbose:
        print(sim,rep,doubt,free,zh,'scale %.3f shift %.3f'%(w.scale,w.shift),'pool',pool,out)
    ths=[]
    for c in costs:
        cal=TH.calibrate(q,r.score_with(w),TH.Aims(c[0],c[1],c[2],0,0,.95,1),g)
        t=cal.thresholds; ths.append(t)
        if verbose: print('  costs',c,'upper %.3f lower %.3f floor %.3f'%(t.upper,t.lower,t.strip_floor),{k:v for k,v in t.figures.items() if any(s in k for s in('accuracy','ambig','precision'))})
    return res,ths,g
if __name__=='__main__':
    a=list(map(float,sys.argv[2:])); run(*a)
