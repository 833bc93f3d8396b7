import sys,os,json,time; os.environ.setdefault('OUT','/tmp/outx'); os.environ['ROWS']='/tmp/rows_c'
sys.argv=['x']
src=open('EXP/gpu/final_gpu.py').read().split("names=sys.argv[1:]")[0].replace("HERE=os.path.dirname(os.path.abspath(__file__))","HERE='EXP/gpu'").replace("1024","48")
sys.path.insert(0,'EXP/gpu')
src=src.replace("from train_gpu import padded","import importlib.util as iu\nspec=iu.spec_from_file_location('tg','EXP/ckn/scripts/train_gpu.py'); tg=iu.module_from_spec(spec); spec.loader.exec_module(tg); padded=tg.padded")
exec(src)
from safetensors.torch import load_file
cfg7={k:v for k,v in json.load(open('EXP/gpu/init/config.json')).items()}
p7=N.load(Path('EXP/ck'),cfg7).state_dict(); p7={k:v.clone().float() for k,v in p7.items()}
t=N.unpacked({**N.word_table(Path('EXP/gpu/init')),**load_file('EXP/C_ema.st')}); m.load_state_dict(t,strict=False)
C={k:v.clone().float() for k,v in m.state_dict().items()}
if hasattr(m.t5,'set_attn_implementation'): m.t5.set_attn_implementation('eager')
for a in (0.5,0.3,0.0,1.0):
    t0=time.time(); m.load_state_dict({k:(a*p7[k]+(1-a)*C[k]).to(m.state_dict()[k].dtype) for k in C})
    f=figures(*read(2600)); sc=score(f); print(a,round(time.time()-t0),sc,flush=True); print({k:round(v,4) for k,v in f.items() if k.startswith('twin en')},flush=True)
    json.dump(f,open(f'EXP/soup2_{a}.json','w'))
