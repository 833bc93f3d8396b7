import pickle,sys,json,gzip; sys.path.insert(0,'/work/main')
import numpy as np
from math import log
q,k=pickle.load(open('rd_cand.pkl','rb'))
users={json.loads(l)['user_question'] for l in gzip.open('md2/manual_train.jsonl.gz','rt')}
lg=lambda p:log(min(max(p,1e-9),1-1e-9)/(1-min(max(p,1e-9),1-1e-9)))
for l in('en','zh'):
    for u in(0,1):
        g=[];n=[];neg=[];nn=[]
        for x in q:
            if x.language!=l or (x.question in users)!=bool(u): continue
            for p,y in zip(x.passages,x.labels):
                a,b,c=k[x.question,p]
                (g if y else neg).append(lg(a)); (n if y else nn).append(b)
        print(l,'users' if u else 'other',len(g),'gold T5',np.round(np.percentile(g,[10,25,50,75]),2),'near',np.round(np.percentile(n,[10,25,50,75]),3),'neg T5',np.round(np.percentile(neg,[50,75,90]),2),'near',np.round(np.percentile(nn,[50,90]),3))
ex=[x for x in q if x.language=='zh' and x.question in users and x.answered][:6]
for x in ex:
    p=x.passages[x.labels.index(True)]; print(x.question,'|',p[:120].replace('\n',' '),[round(v,2) for v in k[x.question,p]])
