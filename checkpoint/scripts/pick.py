import sys,gzip,json,random,collections
sys.path.insert(0,'/work/exp/wt')
from evaluator.data.records import held_back,HELD_BACK_PERCENT
rows=[json.loads(l) for l in gzip.open('data/manual_train.jsonl.gz','rt')]
rng=random.Random(77)
for lang,ks in(('en',range(0,4)),('zh',range(4,8))):
    c=collections.defaultdict(list)
    lo=200 if lang=='en' else 90
    for r in rows:
        if r['language']==lang and not r.get('user_question') and len(r['answer'])>=lo and not held_back(r['title'],HELD_BACK_PERCENT): c[r['package']].append(r)
    tot=sum(len(v)**.5 for v in c.values()); chosen=[]
    for v in c.values(): chosen+=rng.sample(v,min(len(v),round(620*len(v)**.5/tot)))
    rng.shuffle(chosen); chosen=chosen[:560]
    for i,k in enumerate(ks):
        part=chosen[i::4]
        with open(f'w/in_{k}.jsonl','w') as f:
            for r in part: f.write(json.dumps(dict(id=r['id'],title=r['title'],heading=r['question'],text=r['answer']),ensure_ascii=False)+'\n')
        print(k,lang,len(part),sum(len(r['answer']) for r in part))
