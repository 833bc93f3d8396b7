import json,re,hashlib
from pathlib import Path
c=Path('/work/exp/wint/evaluator/weights/config.json'); d=json.loads(c.read_text()); m=d['made_by']
old=json.loads(Path('/work/exp/cand/../wt/evaluator/weights/config.json').read_text())['made_by']; tr=old['training']
m['data']['manual_train.jsonl.gz']=hashlib.sha256(open('/work/exp/md2/manual_train.jsonl.gz','rb').read()).hexdigest()
runs=[dict(rows_seen=20681,minutes=55.0),dict(rows_seen=10468,minutes=27.7),dict(rows_seen=4172,minutes=11.0)]
m['training']=dict(records=92851,device='a CPU, bf16',steps=1190,rows_seen=23900,minutes=52.5,best_step=1190,stopped_by='minutes',before=[*tr['before'],dict(rows_seen=tr['rows_seen'],minutes=tr['minutes']),*runs])
m['options']={**old['options'],'seed':2,'minutes':70,'init':'the weights before','frozen_layers':3,'learning_rate':3e-5,'dropout':.05,'batch_tokens':4096,'train_length':320,'group':5,'span_weight':.5,'shares':{"relevance":.56,"support":.24,"utility":.13,"evidence":.04,"need":.03},'judgements':10000,'warmup_steps':40}
v='/work/exp/val4.json'
if Path(v).exists(): m['validation']=json.load(open(v))
c.write_text(json.dumps(d,indent=2,ensure_ascii=False)+'\n'); print(m['training'])
