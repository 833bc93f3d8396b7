import json,collections
from sklearn.metrics import roc_auc_score as A
import sys
for n in sys.argv[1:]:
    R=json.load(open(f'EXP/{n}.json'))
    for l in('en','zh'):
        r=[x for x in R if x['language']==l]; c=[x for x in r if x['covered']]; u=[x for x in r if not x['covered']]
        a=[x for x in r if x['answered']]
        g=lambda k:[x for x in a if x.get(k) is not None]
        s=f"{n} {l} covered {len(c)} right {sum(x['right'] for x in c)} answered {sum(x['answered'] for x in c)} uncovered answered {sum(x['answered'] for x in u)}/{len(u)} verdicts {dict(collections.Counter((x['verdict'],x['right']) for x in a))} actions {dict(collections.Counter(x['action'] for x in c))}"
        for k in('med','gap','scoregap'):
            b=g(k)
            if b and len({x['right'] for x in b})>1: s+=f" AUC {k} {A([x['right'] for x in b],[x[k] for x in b]):.3f}"
        print(s)
