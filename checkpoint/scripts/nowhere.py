import sys,pickle,random; sys.path.insert(0,'EXP')
import numpy as np
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
from evaluator.data.records import *
from benchmarks.evaluator.spans import _row
s=S.load_scorer(read_settings(weights=Path('EXP/nC')),fused=False)
out={}
for name,N in(('en_squad2_half',1),('zh_drcd',1),('en_squadshifts_wiki',1),('zh_cmrc2018_train',1)):
    rs=[r for r in read_file(Path(f'EXP/bdata/{name}.jsonl.gz')) if r.question]
    held=[r for r in rs if held_back(by_article(r),6)]; known=[r for r in rs if not held_back(by_article(r),6)]
    test=random.Random(1).sample(held,min(120,len(held)))
    rest=[r for r in held if r not in test]
    for which,part,n in(('test',test,120),('rest',rest,400 if 'squad2' in name else 120),('known',known,400 if 'squad2' in name else 60)):
        part=random.Random(2).sample(part,min(n,len(part)))
        rows=s.encode('answer',[(r.question,r.passage) for r in part])
        res=[]
        for i in sorted(range(len(rows)),key=lambda i:len(rows[i].ids)):
            r=rows[i]
            lg,sp=s._graph.run(['logits','spans'],[r]); sp=sp[0][:len(r.ids)]
            t=sp.copy(); t[0]=-1e4
            f,l=S.best_span(t); m=float(sp[f,0]+sp[l,1]-sp[0,0]-sp[0,1])
            a,b=r.offsets[f-r.begins][0],r.offsets[l-r.begins][1]
            z=lg[0]; rec=part[i]
            e,f1=_row(rec.answers if rec.relevant else ('',),rec.passage[a:b]); 
            res.append((rec.relevant,m,f1,S.judgement('relevance',z).score))
        out[name,which]=res
        v=np.array(res,dtype=float); 
        if len(v)==0: continue
        for bar in(0,1,2,3,4,5,6,8,10):
            k=v[:,1]>bar; ans=v[:,0]==1
            fa=(v[ans,2]*k[ans]).mean() if ans.any() else 0; fu=(~k[~ans]).mean() if (~ans).any() else float('nan')
            print(name,which,len(v),ans.mean().round(2),'bar',bar,'answerable',round(fa,3),'refused',round(fu,3),'f1',round((v[ans,2]*k[ans]).sum()/len(v)+(~k[~ans]).sum()/len(v),3),flush=True)
pickle.dump(out,open('EXP/nowhere.pkl','wb'))
