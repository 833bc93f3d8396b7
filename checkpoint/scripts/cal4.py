import sys; sys.argv=['x','rd4.pkl']; exec(open('docal4.py').read().split("if __name__")[0])
from collections import defaultdict
users=set(x.question for x in q if 'users' in x.source)
def fig(g,up,lo):
    out={}
    for l in('en','zh'):
        for nm,sel in(('users',lambda x:'users' in x.source),('headings',lambda x:x.source=='manual_train'),('encyc',lambda x:'manual' not in x.source)):
            m=[x for x in q if x.language==l and sel(x)]
            A=[max(g(x)) for x in m if x.answered]; N=[max(g(x)) for x in m if not x.answered]
            f=[x.labels[int(np.argmax(g(x)))] for x in m if x.answered]
            out[l,nm]=f"{len(A)}/{len(N)} auc {roc_auc_score([1]*len(A)+[0]*len(N),A+N):.3f} first {np.mean(f):.2f} ans: C {np.mean(np.array(A)>=up):.2f} I {np.mean(np.array(A)<lo):.2f}; un: C {np.mean(np.array(N)>=up):.2f} I {np.mean(np.array(N)<lo):.2f} med {np.median(A):.2f}/{np.median(N):.2f}"
    return out
for sim in (30.,45.,60.,90.):
    res,ths,g=run(sim=sim,verbose=False,costs=((1,1,.45),(1,3,.74),(.5,3,.4)))
    w=res['w']; print(sim,'scale %.3f shift %.3f'%(w.scale,w.shift),res['pool'],res['auc'])
    for c,t in zip(('1,1,.45','1,3,.74','.5,3,.4'),ths): print('  ',c,round(t.upper,3),round(t.lower,3),round(t.strip_floor,3),'acc en %.3f zh %.3f'%(t.figures['en_accuracy'],t.figures['zh_accuracy']))
    if sim in(45.,60.):
        for t in ths[:2]:
            for k,v in fig(g,t.upper,t.lower).items(): print('     ',k,v)
