import json,numpy as np,collections
from pathlib import Path
c=np.load('rows/check.npz'); meta=json.load(open('rows/meta.json')); f=json.load(open('ckn/report_second.json'))['checks']['C_ema']['figures']
T=['relevance','support','utility','retrieval']
task,label,kind,src=c['task'],c['label'],c['kind'],c['source']
val={}
for name,v in f.items():
    part,_,s=name.partition(' ')
    if part=='twin': continue
    k=meta['sources'].index(s)
    if part=='span': n=int(((task==0)&(src==k)&(c['start']>0)).sum())
    else:
        t=T.index(part); q=(task==t)&(src==k)&(kind!=meta['kinds'].index('random')); lab=label[q]
        right=lab>=3 if t==2 else lab==0; wrong=lab<=1 if t==2 else lab==meta['count'][t]-1; n=int((right|wrong).sum())
    val[name]={'figure':round(v,4),'rows':n}
a={n:np.load(f'rows/{n}.npy') for n in('task','kind')}
kinds=collections.Counter(zip(a['task'].tolist(),a['kind'].tolist()))
kinds={f"{T[t]}: {meta['kinds'][k]}":n for (t,k),n in kinds.items()}
p=Path('nC/config.json'); cfg=json.loads(p.read_text()); m=cfg['made_by']
m['options']={"seed":11,"minutes":10,"rows":400000,"init":"e5","layers":12,"vocabulary":48000,"frozen_layers":0,"learning_rate":1.2e-4,"new_rate":5e-4,"dropout":0.0,"batch_tokens":49152,"train_length":384,"group":6,"span_weight":0.25,"left_out":[],"languages":["en","zh"],"shares":{"relevance":.46,"support":.34,"utility":.16,"evidence":.03,"need":.01},"held_back_percent":6,"judgements":50000,"warmup_steps":100,"check_every":400}
m['training']={"records":141882,"device":"NVIDIA H100","steps":190,"rows_seen":60152,"minutes":2.18,"best_step":190,"stopped_by":"minutes","temperature":m['training']['temperature'],"before":[{"rows_seen":253904,"minutes":7.35}]}
m['kinds']=dict(sorted(kinds.items())); m['validation']=dict(sorted(val.items()))
p.write_text(json.dumps(cfg,indent=2,ensure_ascii=False)+'\n')
print(json.dumps(m['validation'])[:1500]); print(sum(kinds.values()))
