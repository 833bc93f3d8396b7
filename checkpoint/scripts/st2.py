"""st2.py A.jsonl [B.jsonl]: rights by pattern; compared"""
import json,re,sys,statistics
from collections import defaultdict
def load(f): return {(r['id'],r['q'],r['covered'],r['cfg']):r for r in map(json.loads,open(f))}
ans=lambda r:r['body']['stopped_by']!='no_evidence' and bool(r['body']['citations'])
right=lambda r:ans(r) and bool(r.get('gold')) and bool(re.search(r['gold'],r['body']['answer'],re.I))
kept=lambda r:any(s.get('kept') and re.search(r['gold'] or '(?!)',s['text'],re.I) for s in r['body']['strips'])
intop=lambda r:any(re.search(r['gold'] or '(?!)',s['text'],re.I) for s in r['body']['strips'])
first=lambda r:False
def show(A,name):
    G=defaultdict(list)
    for k,r in A.items(): G[r['cfg'],r['lang'],r['covered']].append(r)
    for k in sorted(G):
        v=G[k]; a=[r for r in v if ans(r)]; L=statistics.median([len(r['body']['answer']) for r in a]) if a else 0
        print(name,k,len(v),'strip',sum(map(intop,v)),'kept',sum(map(kept,v)),'answered',len(a),'right',sum(map(right,v)),'sup',f"{sum(right(r) for r in v if r['body']['verdict']=='supported')}/{sum(r['body']['verdict']=='supported' for r in v)}",'partly',f"{sum(right(r) for r in v if r['body']['verdict']=='partly')}/{sum(r['body']['verdict']=='partly' for r in v)}",'unsup',f"{sum(right(r) for r in v if ans(r) and r['body']['verdict']=='unsupported')}/{sum(ans(r) and r['body']['verdict']=='unsupported' for r in v)}",'len',L)
A=load(sys.argv[1]); show(A,'A')
if len(sys.argv)>2:
    B=load(sys.argv[2]); show(B,'B')
    for cfg in('self','rag'):
        for l in('en','zh'):
            ks=[k for k in A if k in B and A[k]['lang']==l and k[3]==cfg]
            for cov in(True,False):
                kk=[k for k in ks if k[2]==cov]; f=right if cov else ans
                if kk: print(cfg,l,'covered right' if cov else 'uncovered answered',len(kk),sum(f(A[k]) for k in kk),'->',sum(f(B[k]) for k in kk),'gained',sum(f(B[k]) and not f(A[k]) for k in kk),'lost',sum(f(A[k]) and not f(B[k]) for k in kk))
