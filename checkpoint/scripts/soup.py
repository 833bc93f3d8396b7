import pickle,torch,time,json,sys
from pathlib import Path
from evaluator.training.train import *
opt=TrainOptions(seed=7,init='EXP/p6raw',train_length=256)
net,tok=beginning([],opt,print)
p6={k:v.clone() for k,v in net.state_dict().items()}
st=read_state(Path('EXP/p7/run.ckpt')); fin,best=st['model'],st['best']
_,_,check,_=pickle.load(open('EXP/rows7.pkl','rb'))
check=sampled([c for c in check if c.task!='retrieval'],3)
print(len(check))
def avg(*ws):
    return {k:(sum(w*s[k].float() for w,s in ws)).to(p6[k].dtype) for k in p6}
C={'final':fin,'avg2':avg((.5,fin),(.5,best)),'avg3':avg((.5,fin),(.25,best),(.25,p6))}
net.eval()
if hasattr(net.t5,'set_attn_implementation'): net.t5.set_attn_implementation('eager')
for n,s in C.items():
    t=time.time(); net.load_state_dict(s); f=validation(net,check); m=summary(f)
    lang={l:{t:round(float(np.mean([v['figure'] for k,v in f.items() if k.split()[0]==t and k.split()[1].startswith(l)])),4) for t in('relevance','support','utility','span')} for l in('en','zh')}
    print(n,m,lang,round(time.time()-t),flush=True)
    torch.save(s,f'EXP/soup_{n}.pt')
