import sys,json,re; sys.path.insert(0,'/work/exp/wint')
from benchmarks import confidence as C
from benchmarks.answers import half_of
def rows(f,cfg,name,fit=True,only=None):
    out=[]
    for l in open(f):
        r=json.loads(l)
        if r['cfg']!=cfg: continue
        k=(r['id'],r['q'],r['covered'])
        if only is not None and k not in only: continue
        q=dict(question=r['q'],language=r['lang'],covered=r['covered'],gold=r.get('gold'))
        h=half_of(r['id'])
        x=C.figures_of(f'{name}, {h} half',q,r['body'])
        if not fit: x['set']=f'{name} before, {h} half'; x['readings']=None
        out.append((k,x))
    return out
L='/work/exp/lab/'
u=rows(L+'h35.jsonl','self','users'); ub=rows(L+'h_old.jsonl','self','users',False)
common={k for k,_ in u}&{k for k,_ in ub}
a=rows(L+'a_sw.jsonl','t35','answers'); ab=rows(L+'a_old.jsonl','self','answers',False)
print(len(u),len(ub),len(common),len(a),len(ab))
R=[x for k,x in u]+[x for k,x in a]+[x for k,x in ub if k in common]+[x for k,x in ab]
text=",\n".join(f" {json.dumps(row)}" for row in R)
C.FIGURES.write_text(f"[\n{text}\n]\n","utf-8"); print([round(v,3) for v in C.fit(R)])
C.FIGURES.with_suffix(".md").write_text(C.report(R),"utf-8")
