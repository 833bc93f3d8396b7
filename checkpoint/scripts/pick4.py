import sys,gzip,json,random,collections
rows=[json.loads(l) for l in gzip.open('/work/exp/md2/manual_held.jsonl.gz','rt')]
u={json.loads(l)['id'] for l in open('/work/main/evaluator/data/user_questions.jsonl')}
rng=random.Random(91)
for lang,ks in(('en',range(0,3)),('zh',range(3,6))):
    c=collections.defaultdict(list)
    lo=220 if lang=='en' else 100; hi=2500 if lang=='en' else 1100
    for r in rows:
        if r['language']==lang and r['id'] not in u and lo<=len(r['answer'])<=hi: c[r['package']].append(r)
    tot=sum(len(v)**.5 for v in c.values()); chosen=[]
    for v in c.values(): chosen+=rng.sample(v,min(len(v),round(330*len(v)**.5/tot)))
    rng.shuffle(chosen); 
    for i,k in enumerate(ks):
        part=chosen[i::3]
        with open(f'w3/in_{k}.jsonl','w') as f:
            for r in part: f.write(json.dumps(dict(id=r['id'],title=r['title'],heading=r['question'],text=r['answer']),ensure_ascii=False)+'\n')
        print(k,lang,len(part),sum(len(r['answer']) for r in part), collections.Counter(r['package'] for r in part))
