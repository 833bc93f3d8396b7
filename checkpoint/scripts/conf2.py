"""conf2.py HALF OUT: asks by self_crag; both standings"""
import sys,json,httpx
from statistics import median
from benchmarks.confidence import is_right
from benchmarks import answers as B
from graphs.types import Strip
half,out=sys.argv[1:3]; rows=[]
client=httpx.Client(base_url='http://127.0.0.1:8123',timeout=200)
for q in B.questions(half):
    q['covered']=q['kind']!='uncovered'
    r=client.post('/ask',json={'question':q['question'],'options':{'web':'never','deadline_ms':120000}}).json()
    best={}
    for s in r['strips']:
        if s.get('similarity') is not None: best[s['document_id']]=max(best.get(s['document_id'],-9),s['similarity'])
    src={s['id']:s['document_id'] for s in r['strips']}
    c=r['citations']; d=src.get(c[0]['strip_id']) if c else None
    row=dict(language=q['language'],covered=q['kind']!='uncovered',id=q['id'],answered=bool(c),right=bool(c) and is_right(q,r),verdict=r['verdict'],confidence=r.get('confidence'),action=r.get('action'),words=len(r['answer'].split()),chars=len(r['answer']))
    if d in best and len(best)>=3:
        o=[v for k,v in best.items() if k!=d]; row|=dict(med=best[d]-median(best.values()),gap=best[d]-max(o))
        sc={}
        for s in r['strips']: sc[s['document_id']]=max(sc.get(s['document_id'],-9),s['score'] if s['score'] is not None else -9)
        row['scoregap']=sc[d]-max(v for k,v in sc.items() if k!=d)
    rows.append(row)
json.dump(rows,open(out,'w')); print(len(rows))
