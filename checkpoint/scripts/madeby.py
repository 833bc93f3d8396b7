import json,re,hashlib,sys
from pathlib import Path
c=Path('/work/exp/cand/config.json'); d=json.loads(c.read_text()); m=d['made_by']
run=json.load(open('/work/exp/ft1/run.json'))
m['data']['manual_train.jsonl.gz']=hashlib.sha256(open('/work/exp/md2/manual_train.jsonl.gz','rb').read()).hexdigest()
old=json.loads(Path('/work/exp/wt/evaluator/weights/config.json').read_text())['made_by']
tr=old['training']
m['training']=dict(records=92851,device='CPU, bf16',steps=run['steps'],rows_seen=run['rows_seen'],minutes=round(run['minutes'],1),best_step=run['steps'],stopped_by='minutes',before=[*tr['before'],dict(rows_seen=tr['rows_seen'],minutes=tr['minutes'])])
m['options']={**old['options'],'seed':1,'minutes':round(run['minutes']),'init':'the weights before','frozen_layers':3,'learning_rate':3e-5,'dropout':.05,'batch_tokens':4096,'train_length':320,'group':5,'span_weight':.5,'shares':{"relevance":.56,"support":.24,"utility":.13,"evidence":.04,"need":.03},'judgements':10000,'warmup_steps':40}
line=[l for l in open('/work/exp/ft1.log') if 'final ema' in l][0]
v=dict(re.findall(r'((?:relevance|retrieval|support|utility|span) [\w ]+?) ([\d.]+)',line))
ov=old['validation']; 
m['validation']={k:{'figure':float(x),'rows':ov.get(k,{}).get('rows',0)} for k,x in v.items()}
c.write_text(json.dumps(d,indent=2,ensure_ascii=False)+'\n'); print(m['training'],len(m['validation'])); print(list(ov.items())[:2])
