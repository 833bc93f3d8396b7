import sys,pickle,time,random,os
sys.path.insert(0,'/work/exp/wt')
from pathlib import Path
from evaluator.inference.onnx_embedder import OnnxEmbedder
from evaluator.inference.fusion import CentredCosines
from evaluator.settings import EvaluatorSettings
out=pickle.load(open('svcpools.pkl','rb'))
emb=OnnxEmbedder(Path('/work/exp/wt/evaluator/weights/encoder'),EvaluatorSettings(threads=1))
cos=CentredCosines(emb,Path('/work/exp/wt/evaluator/weights/encoder'),0.0)
old=pickle.load(open('users_extra.pkl.first','rb')); t=time.time(); new=[]
rng=random.Random(4)
for k in range(0,len(out),50):
    part=out[k:k+50]; pairs=[]; first=[]
    for q,row,f,gt,neg in part:
        neg=neg[:3]+rng.sample(neg[3:],min(2,len(neg[3:])))
        show=lambda t:f'{t[0]} // {t[1]}' if t[0] else t[1]
        ps=[(q['question'],show(gt))]+[(q['question'],show(x)) for x in neg]
        first.append((len(pairs),len(ps))); pairs+=ps
    c=cos.of(pairs)
    for (q,row,f,gt,neg),(a,m) in zip(part,first):
        new.append(dict(id=q['id'],language=row['language'],question=q['question'],title=row['title'],held=False,rows=[dict(kind='service',titled=True,fact=f,pairs=pairs[a:a+m],cos=c[a:a+m])]))
    pickle.dump(old+new,open('users_extra.tmp','wb'),4); os.replace('users_extra.tmp','users_extra.pkl')
    print(k,len(pairs),round(time.time()-t),flush=True)
