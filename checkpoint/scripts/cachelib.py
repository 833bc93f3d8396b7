"""Caches T5 forwards and encoder vectors on disk; install(cache) patches."""
import pickle,os,atexit,threading,numpy as np
import evaluator.inference.scorer as S
def install(path, vecpath='EXP/vec.pkl'):
    mem=pickle.load(open(path,'rb')) if os.path.exists(path) else {}
    vec=pickle.load(open(vecpath,'rb')) if os.path.exists(vecpath) else {}
    n0=[len(mem),len(vec)]
    class Cached:
        def __init__(self,inner): self.inner=inner; self.name,self.digest,self.tasks=inner.name,inner.digest,inner.tasks
        def encode(self,task,pairs): return self.inner.encode(task,pairs)
        def forward(self,task,rows):
            keys=[(self.digest[:20],task,r.ids) for r in rows]
            new=[i for i,k in enumerate(keys) if k not in mem]
            if new:
                nr=[rows[i] for i in new]
                if task in('relevance','answer') and hasattr(self.inner,'_graph'):
                    logits,spans=self.inner._graph.run(['logits','spans'],nr)
                    got=S.judgements(task,nr,logits,*([spans] if task=='answer' else []))
                    if task=='relevance':
                        for i,r,sp in zip(new,nr,spans):
                            st,en=sp[:len(r.ids),0],sp[:len(r.ids),1]
                            # best end at or after each start
                            best=np.maximum.accumulate(en[::-1])[::-1]
                            m=float((st[1:]+best[1:]).max()-(st[0]+en[0]))
                            mem[('span',)+keys[i]]=max(m,-50.0)
                else: got=self.inner.forward(task,nr)
                for i,o in zip(new,got): mem[keys[i]]=o
            return [mem[k] for k in keys]
    class CEnc:
        def __init__(self,inner,tag): self.inner=inner; self.tag=tag
        def __getattr__(self,n): return getattr(self.inner,n)
        def embed(self,texts,kind):
            keys=[(self.tag,kind,t) for t in texts]; new=[i for i,k in enumerate(keys) if k not in vec]
            if new:
                out,_=self.inner.embed([texts[i] for i in new],kind)
                for i,v in zip(new,out): vec[keys[i]]=v.astype(np.float16)
            return (np.array([vec[k] for k in keys],dtype=np.float32) if texts else self.inner.embed([],kind)[0]), None
    import evaluator.inference.fusion as F
    load=S.load_scorer
    def load_scorer(settings,*,fused=True):
        base=Cached(S._backend(settings,'scorer').load(settings))
        if not fused: return base
        return F.FusedScorer(base,S.load_similarity(settings),F.load_weights(settings.weights))
    def load_similarity(settings):
        folder=settings.weights/S.ENCODER_FOLDER
        enc=S._backend(settings,'embedder').load(folder,settings)
        import evaluator
        tag='wt' if '/wt/' in evaluator.__file__ else 'main'
        return F.CentredCosines(CEnc(enc,tag),folder)
    S.load_scorer=load_scorer; S.load_similarity=load_similarity
    def save():
        if len(mem)>n0[0]: pickle.dump(mem,open(path,'wb'),4)
        if len(vec)>n0[1]:
            old=pickle.load(open(vecpath,'rb')) if os.path.exists(vecpath) else {}
            old.update(vec); pickle.dump(old,open(vecpath+'.tmp%d'%os.getpid(),'wb'),4); os.replace(vecpath+'.tmp%d'%os.getpid(),vecpath)
    atexit.register(save)
    return mem,vec,save
