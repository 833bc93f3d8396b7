import json,sys,collections
sys.path.insert(0,'/work/main'); import benchmarks.answers as A
rows=json.load(open(sys.argv[1])); t=sys.argv[2]
for l in('en','zh'):
    c=collections.Counter()
    for r in rows:
        if r['workflow']=='self_crag' and r['t']==t and r['language']==l and r['kind']=='covered':
            c[(A.lost_at(r) or 'found', 'abst' if r['abstained'] else 'ans')]+=1
    print(l,c)
for r in rows:
    if r['workflow']=='self_crag' and r['t']==t and r['language']=='zh' and r['kind']=='covered' and A.lost_at(r) and A.half_of(r['id'])=='tuned':
        print(r['id'],A.lost_at(r),r['abstained'],r['confidence'],' '.join(r['answer'].split())[:100])
