"""ask.py PORT OUT: rows over thresholds"""
import sys,json; sys.path.insert(0,'/work/main')
import benchmarks.answers as A, httpx, collections
from concurrent.futures import ThreadPoolExecutor
port,out=sys.argv[1:3]
TH=[None,(-.23,-.349),(-.461,-.518),(-.555,-.615)] if len(sys.argv)<4 else json.loads(sys.argv[3])
SET=['self_crag']
qs=A.questions('both'); rows=[]
c=httpx.Client(base_url=f'http://127.0.0.1:{port}',timeout=180,trust_env=False)
def one(q):
    o=[]
    for w in SET:
        for t in TH:
            A.SETTINGS[f'{w} {t}']=(w,{} if t is None else dict(upper=t[0],lower=t[1]))
            r=A.ask(c,q,f'{w} {t}'); r['workflow']=w; r['t']=str(t); o.append(r)
    return o
with ThreadPoolExecutor(2) as ex:
    for o in ex.map(one,qs): rows+=o
json.dump(rows,open(out,'w'),ensure_ascii=False)
for w in SET:
    for t in TH:
        s=f'{w:10} {str(t):20}'
        for l in('en','zh'):
            for h in('tuned','reported'):
                x=[r for r in rows if r['workflow']==w and r['t']==str(t) and r['language']==l and A.half_of(r['id'])==h]
                cov=[r for r in x if r['kind']=='covered']; un=[r for r in x if r['kind']=='uncovered']
                s+=f" | {l} {h[0]} right {sum(r['answered'] for r in cov)}/{len(cov)} unc-answered {sum(not r['abstained'] for r in un)}/{len(un)}"
        print(s)
