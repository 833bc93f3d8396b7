import pickle,collections,json,re,sys,os
import numpy as np
from math import log
T=pickle.load(open('t5_%s.pkl'%sys.argv[1],'rb')); E=pickle.load(open('e5.pkl','rb'))
W=sys.argv[2]; centre=np.load(W+'/encoder/centre.npy')
byq=collections.defaultdict(dict)
for k,v in T.items():
    if k[0]=='relevance' and not isinstance(v,str): byq[k[1]][k[2]]=v
n=lambda s:re.sub(r'[\W_]+','',s).casefold()
rows=[]
D=pickle.load(open('../chunks.pkl','rb'))
miss=0
for f in sys.argv[3:]:
  for l in open(f):
    r=json.loads(l)
    if r['cfg']!='self' or not r['covered']: continue
    b=r['body']; q=b['standalone_question'] or r['q']; texts=byq.get(q) or byq.get(r['q'])
    if not texts: miss+=1; continue
    qv=E.get(('query',q)); qp=E.get(('passage',q))
    fs=[n(x) for x in r['facts'] if n(x)]
    pool=[]
    for k,d in enumerate(b['documents'][:10]):
        c=D.get(d['id'])
        if not c: continue
        key=next((t for t in texts if t.endswith(c['text'][-60:]) and t.startswith(d['title'][:20])),None)
        if key is None or ('passage',key) not in E: continue
        v=texts[key]; p=v.probabilities['[Relevant]']; lg=log(min(max(p,1e-6),1-1e-6)/(1-min(max(p,1e-6),1-1e-6)))
        e=E[('passage',key)].astype(np.float32)-centre
        pool.append((lg,float(qv.astype(np.float32)@e),float(qp.astype(np.float32)@e),d['score'],k,any(x in n(c['lead']+c['text']) for x in fs)))
    if len(pool)>=5: rows.append((r['lang'],r['half'],r['id'],np.array(pool,float)))
    else: miss+=1
print(len(rows),'missed',miss)
pickle.dump(rows,open('rank_%s.pkl'%sys.argv[1],'wb'))
