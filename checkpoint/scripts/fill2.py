"""fill.py N OUT cfg...: cfg = name:json options"""
import sys; sys.path.insert(0,'/work/exp/lab')
from lab import *
async def main():
    N,out=int(sys.argv[1]),sys.argv[2]; cfgs=[(a.split(':',1)[0],json.loads(a.split(':',1)[1])) for a in sys.argv[3:]]
    done=set()
    if os.path.exists(out):
        for l in open(out): d=json.loads(l); done.add((d['id'],d['q'],d['covered'],d['cfg']))
    LG=os.environ.get('LANGS','en,zh').split(',')
    src={'answers':answers,'held':lambda:held(N)}.get(os.environ.get('SET'),lambda:sample(N))()
    jobs=[(j,c) for j in src if j[0]['language'] in LG for c in cfgs if (j[0]['id'],j[0]['question'],j[2],c[0]) not in done]
    print(len(jobs),'to do',len(T5),len(E5),flush=True)
    t=time.time(); n=0
    async with service(os.environ['DATA']) as (app,c):
        f=open(out,'a'); sem=asyncio.Semaphore(int(os.environ.get('PAR','2'))); last=[time.time()]
        async def one(j,cfg):
            nonlocal n
            async with sem:
                q,col,cov=j; o=dict(cfg[1]); w=o.pop('workflow','self_crag')
                r=await c.post('/ask',json=dict(question=q['question'],workflow=w,collection=col,options=dict(web='never',deadline_ms=120000,**o)))
                if r.status_code!=200: print(r.status_code,r.text[:300],flush=True); return
                b=r.json(); tr=(await c.get('/runs/'+b['run_id'])).json()
                f.write(json.dumps(dict(id=q['id'],q=q['question'],lang=q['language'],facts=q['facts'],gold=q.get('gold'),half=half(q['id']),covered=cov,cfg=cfg[0],body=b,trace=tr),ensure_ascii=False)+'\n'); f.flush(); n+=1
                if n%20==0: print(n,round(time.time()-t),len(T5),len(E5),flush=True)
                if time.time()-last[0]>240: last[0]=time.time(); dump()
        await asyncio.gather(*(one(j,k) for j,k in jobs))
    dump(); print('done',n,round(time.time()-t))
asyncio.run(main())
