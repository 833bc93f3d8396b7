"""fills scores.md (en, zh), README's table and prints changes"""
import json,re,sys
from pathlib import Path
W=Path(sys.argv[1]); E=json.load(open(W/'benchmarks/evaluator.json'))
p=lambda x:f"{100*x:.0f} %"
m,k,a,j=E['manuals'],E['kinds'],E['actions'],E['judgements']
acc=E['acceptance']
print('manual sel',{x:{y:m[x].get(y) for y in('auc','auc_covered','coverage','uncovered_above','calibration_error','covered_correct','covered_incorrect','uncovered_correct','standing')} for x in m if 'selective' in x})
print({x:{n:(v['first'] if isinstance(v,dict) and 'first' in v else v) for n,v in m[x].items()} for x in m if 'selective' not in x and 'stability' not in x})
print('kinds',{l:{n:v for n,v in (k[l] if l in k else {}).items()} for l in('en','zh')} if 'en' in k else list(k.items())[:4])
print('actions',{n:{y:v.get(y) for y in('accuracy','needless_searches','ambiguous_share','always_correct','auc')} for n,v in a.items() if isinstance(v,dict)})
print('acc',json.dumps(acc)[:1500])
print('need',{n:v for n,v in j.items() if 'retriev' in n or 'need' in n})
