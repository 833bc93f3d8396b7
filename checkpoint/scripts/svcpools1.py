"""pools as the service brings them, for users' questions of training pages of 24 packages; e5's cosines; saved as users_extra.pkl grows"""
import sys,json,asyncio,pickle,collections,re,os,random,time,gzip
sys.path.insert(0,'/work/exp/wtmain')
from pathlib import Path
from app.composition.embedder import open_retriever
from graphs.options import Scope,Search
from evaluator.data.records import held_back,HELD_BACK_PERCENT
qs=[json.loads(l) for l in open('/work/main/evaluator/data/user_questions.jsonl')]
d=pickle.load(open('chunks.pkl','rb'))
rows={}
for l in gzip.open('data/manual_train.jsonl.gz','rt'):
    r=json.loads(l); rows[r['id']]=r
n=lambda s:re.sub(r'[\W_]+','',s).casefold()
bysrc=collections.defaultdict(list)
for c in d.values(): bysrc[c['source'].split('/docsab/')[1][2:]].append(c)
async def main():
    r=await open_retriever(Path('/work/exp/svcab2'))
    out=[]; skipped=collections.Counter()
    for q in qs:
        row=rows.get(q['id'])
        if not row: skipped['norow']+=1; continue
        if held_back(row['title'],HELD_BACK_PERCENT): skipped['held']+=1; continue
        page='/'.join(q['id'].split('/')[:-1])
        cs=bysrc.get(page) 
        if not cs: skipped['nopage']+=1; continue
        facts=[row['answer'][a:b] for a,b in q['facts']]
        fs=[n(f) for f in facts if n(f)]
        gold=[c for c in cs if any(f in n(c['lead']+c['text']) for f in fs)]
        if not gold: skipped['nogold']+=1; continue
        col=gold[0]['collection']
        res=await r.retrieve(q['question'],10,Search(scope=Scope(collections=(col,)),depth=60))
        gi={c['id'] for c in gold}
        best=[p for p in res if p.id in gi or any(f in n(p.text) for f in fs)]
        g=best[0] if best else None
        gt=(g.title,g.text) if g else (gold[0]['title'],gold[0]['text'])
        neg=[(p.title,p.text) for p in res if p not in best]
        f=max((x for x in facts if x in gt[1]),key=len,default=None)
        out.append((q,row,f,gt,neg[:8]))
    print(len(out),skipped,flush=True); return out
out=asyncio.run(main()); random.Random(3).shuffle(out)
pickle.dump(out,open('svcpools.pkl','wb'))
