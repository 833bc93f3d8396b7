"""lab.py: the service in one process, with readings of T5 and e5 kept on disk.
   use: SRC env = worktree; from lab import Lab
"""
import sys,os,json,pickle,zlib,asyncio,time,threading
SRC=os.environ.get('SRC','/work/exp/wt'); sys.path.insert(0,SRC); os.chdir(SRC)
from dataclasses import dataclass,replace
import numpy as np
NS=os.environ.get('NS','former')
CA='/work/exp/lab/t5_%s.pkl'%NS; CE='/work/exp/lab/e5.pkl'
T5=pickle.load(open(CA,'rb')) if os.path.exists(CA) else {}
E5=pickle.load(open(CE,'rb')) if os.path.exists(CE) else {}
L=threading.Lock()
import evaluator.inference.onnx_scorer as OS, evaluator.inference.onnx_embedder as OE, evaluator.schema as SC
@dataclass(frozen=True)
class KRow(SC.Row):
    key: tuple=()
_enc,_fwd=OS.OnnxScorer.encode,OS.OnnxScorer.forward
def encode(self,task,pairs):
    out=[None]*len(pairs); miss=[]
    for i,p in enumerate(pairs):
        k=(task,*p)
        if k in T5: out[i]=T5[k] if isinstance(T5[k],str) else KRow((0,),key=k)
        else: miss.append(i)
    if miss:
        for i,r in zip(miss,_enc(self,task,[pairs[i] for i in miss])):
            k=(task,*pairs[i])
            if isinstance(r,str): T5[k]=r; out[i]=r
            else: out[i]=KRow(r.ids,r.offsets,r.begins,r.cosines,r.need,k)
    return out
def forward(self,task,rows):
    out=[T5.get(r.key) if isinstance(r,KRow) else None for r in rows]
    miss=[i for i,o in enumerate(out) if o is None]
    if miss:
        for i,s in zip(miss,_fwd(self,task,[rows[i] for i in miss])):
            out[i]=s
            if isinstance(rows[i],KRow): T5[rows[i].key]=s
    return out
OS.OnnxScorer.encode=encode; OS.OnnxScorer.forward=forward
_emb=OE.OnnxEmbedder.embed
def embed(self,texts,kind):
    miss=[t for t in dict.fromkeys(texts) if (kind,t) not in E5]
    if miss:
        v,n=_emb(self,miss,kind)
        for t,x in zip(miss,v): E5[(kind,t)]=x.astype(np.float16)
    if not texts: return _emb(self,[],kind)
    return np.array([E5[(kind,t)] for t in texts],np.float32),0
OE.OnnxEmbedder.embed=embed
def dump():
    for p,d in((CA,T5),(CE,E5)):
        t=p+'.tmp'; pickle.dump(dict(d),open(t,'wb')); os.replace(t,p)
def quiet():
    import logging; logging.disable(logging.INFO)
import httpx
from contextlib import asynccontextmanager
@asynccontextmanager
async def service(data,**env):
    os.environ.update(SELFCRAG_DATA_DIR=data,SELFCRAG_SEARCH='off',SELFCRAG_LOG_LEVEL='error',**env)
    from app.main import create_app
    from app.settings import Settings,load_settings
    app=create_app(load_settings(Settings)); quiet()
    async with app.router.lifespan_context(app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app),base_url='http://127.0.0.1',timeout=900,trust_env=False) as c:
            yield app,c
def half(i): return ('tuned','reported')[zlib.crc32(i.encode())%2]
def sample(n):
    qs=json.load(open(os.environ.get('QS','/work/exp/qab.json')))
    by={l:sorted((q for q in qs if q['language']==l),key=lambda q:zlib.crc32(('s'+q['id']+q['question']).encode()))[:n] for l in('en','zh')}
    jobs=[]
    for a,b in zip(by['en'],by['zh']):
        for q in(a,b):
            jobs.append((q,q['half'],True))
    for k,(a,b) in enumerate(zip(by['en'],by['zh'])):
        if k%2==0:
            for q in(a,b): jobs.append((q,'ba'['ab'.index(q['half'])],False))
    # interleave uncovered evenly
    cov=[j for j in jobs if j[2]]; unc=[j for j in jobs if not j[2]]; out=[]
    while cov or unc:
        out+=cov[:4]; cov=cov[4:]; out+=unc[:2]; unc=unc[2:]
    return out
def answers():
    import re
    out=[]
    for l in open('/work/main/benchmarks/answers.jsonl'):
        q=json.loads(l); 
        if q.get('kind') in('covered','uncovered'): out.append((dict(id=q['id'],question=q['question'],language=q['language'],facts=[q.get('gold') or ''],gold=q.get('gold')),'default',q['kind']=='covered'))
    return out
def held(n):
    out=[]; c={}
    rows=[json.loads(l) for l in open('/work/exp/heldpages/questions.jsonl')]
    rows.sort(key=lambda r:zlib.crc32(('h'+r['id']).encode()))
    for r in rows:
        k=(r['language'],r['covered']); c[k]=c.get(k,0)+1
        if c[k]<=(n if r['covered'] else n//3): out.append((dict(id=r['id'],question=r['question'],language=r['language'],facts=[],gold=r['gold']),'default',r['covered']))
    return out
