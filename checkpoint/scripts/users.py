"""user groups: gold and hard neighbours under titles, e5's cosines"""
import sys,pickle,time,random,gzip,json,collections,glob,os
from pathlib import Path
sys.path.insert(0,'/work/exp/wt')
import numpy as np
from evaluator.data.records import held_back,HELD_BACK_PERCENT,CHUNK_CHARS
from evaluator.data.text import sentences
from evaluator.data.hard_negatives import WordNeighbours
from evaluator.inference.onnx_embedder import OnnxEmbedder
from evaluator.inference.fusion import CentredCosines
from evaluator.settings import EvaluatorSettings
from evaluator.training.relevance_pairs import as_typed
extra=sys.argv[1]=='extra'
rows=[json.loads(l) for l in gzip.open('data/manual_train.jsonl.gz','rt')]
byid={r['id']:r for r in rows}
if extra:
    qs=[]
    for f in sorted(glob.glob('w/out_*.jsonl')):
        for l in open(f):
            try: d=json.loads(l)
            except ValueError: continue
            r=byid.get(d['id'])
            facts=[x for x in d['facts'] if r and x in r['answer']]
            if facts: qs.append((r,d['question'],facts))
else: qs=[(r,r['user_question'],r['facts']) for r in rows if r.get('user_question')]
if extra: random.Random(1).shuffle(qs); qs=qs[:1000]
print(len(qs),'questions',flush=True)
rng=random.Random(5)
bypkg=collections.defaultdict(list)
for r in rows: bypkg[r['package'],r['language']].append(r)
idx={}
bylang=collections.defaultdict(list)
for r in rows: bylang[r['language']].append(r)
gl={l:WordNeighbours([x['title']+' '+x['answer'] for x in v]) for l,v in bylang.items()}
print('indexed',flush=True)
emb=OnnxEmbedder(Path('/work/exp/wt/evaluator/weights/encoder'),EvaluatorSettings(threads=1 if extra else 2))
cos=CentredCosines(emb,Path('/work/exp/wt/evaluator/weights/encoder'),0.0)
def view(text,lang,facts,kind,size):
    rng=random.Random(kind+text)
    top=900 if lang=='en' else 400
    if kind=='whole' and len(text)<=top: return text
    parts=sentences(text)
    if kind=='whole': lim=top
    elif kind=='chunk': lim=CHUNK_CHARS[lang]*.7
    else: lim=270 if lang=='en' else 90
    hold=[i for i,p in enumerate(parts) if any(f in p or (len(p)>8 and p in f) for f in facts)]
    if facts and not hold: return text
    mid=hold[0] if hold else rng.randrange(len(parts)); win=[mid]; n=len(parts[mid]); a,b=mid-1,mid+1
    for i in hold[1:]:
        if i==win[-1]+1 and n+len(parts[i])<lim*1.5: win.append(i); n+=len(parts[i]); b=i+1
    while True:
        c=[x for x in (a,b) if 0<=x<len(parts) and n+len(parts[x])<=lim]
        if not c: break
        x=rng.choice(c); n+=len(parts[x])
        if x==a: win=[x]+win; a-=1
        else: win=win+[x]; b+=1
    return ('' if lang=='zh' else ' ').join(parts[i] for i in win)
out=[]; pairs=[]
for r,q,facts in qs:
    lang=r['language']; pk=bypkg[r['package'],lang]
    key=(r['package'],lang)
    if key not in idx: idx[key]=WordNeighbours([x['title']+' '+x['answer'] for x in pk]) if len(pk)>12 else None
    near=[pk[i] for i in idx[key].nearest([q],6)[0]] if idx[key] else list(pk)
    anywhere=[bylang[lang][i] for i in gl[lang].nearest([q],3)[0]]
    page=[x for x in pk if x['page']==r['page'] and abs(x['position']-r['position'])<=1]
    neg,seen=[],{r['answer']}
    for how,x in [('bm25',x) for x in near]+[('any',x) for x in anywhere]+[('page',x) for x in page]:
        if x['answer'] in seen or any(f in x['answer'] for f in facts): continue
        if x['answer'] in r['answer'] or r['answer'] in x['answer']: continue
        seen.add(x['answer']); neg.append((how,x))
    g=dict(id=r['id'],language=lang,question=q,title=r['title'],held=held_back(r['title'],HELD_BACK_PERCENT),rows=[])
    qv=as_typed(q,rng)
    kinds=['whole'] if g['held'] else [rng.choice(['whole','whole','whole','chunk','chunk','strip'])]
    if g['held']: neg=[x for h,x in neg if h=='bm25'][:7]
    else:
        a=[x for h,x in neg if h=='bm25'][:5]; b=[x for h,x in neg if h!='bm25']
        a=rng.sample(a,min(3,len(a))); neg=a+rng.sample(b,min(4-len(a),len(b)))
    for kind in kinds:
        titled=kind!='strip'
        t=view(r['answer'],lang,facts,kind,0)
        f=max((x for x in facts if x in t),key=len,default=None)
        show=lambda e,t: f"{e['title']} // {t}" if titled else t
        ps=[(qv,show(r,t))]+[(qv,show(x,view(x['answer'],lang,(),kind,0))) for x in neg]
        if kind=='strip' :
            rest=[p for p in sentences(r['answer']) if len(p)>(15 if lang=='en' else 8) and not any(x in p or p in x for x in facts)]
            if rest: ps.append((qv,show(r,rng.choice(rest))))
        g['rows'].append(dict(kind=kind,titled=titled,fact=f,pairs=ps,first=len(pairs))); pairs+=ps
    out.append(g)
print(len(pairs),'pairs',flush=True)
t=time.time(); c=[]
for i in range(0,len(pairs),2000):
    c+=cos.of(pairs[i:i+2000]); print(i,round(time.time()-t),flush=True)
for g in out:
    for v in g['rows']: v['cos']=c[v['first']:v['first']+len(v['pairs'])]
pickle.dump(out,open('users_extra.pkl' if extra else 'users.pkl','wb'),4)
# quick e5 first among
for l in('en','zh'):
    for h in(0,1):
        x=[np.argmax([a for a,_ in v['cos']])==0 for g in out if g['language']==l and g['held']==h for v in g['rows'] if v['kind']=='whole']
        if x: print(l,'held' if h else 'known',len(x),'e5 first',np.mean(x))
