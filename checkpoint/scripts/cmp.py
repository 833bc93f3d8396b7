"""cmp.py NAME FILE_OR_FOLDER N: figures of final_gpu on the first rows of the check"""
import sys,os; os.environ.setdefault('OUT','/tmp/outx'); os.environ['ROWS']='/tmp/rows_c'
sys.argv_,name,path,n=0,sys.argv[1],sys.argv[2],0
src=open('EXP/gpu/final_gpu.py').read().split("names=sys.argv[1:]")[0].replace("HERE=os.path.dirname(os.path.abspath(__file__))","HERE='EXP/gpu'")
src=src.replace("1024","48")
exec(src)
from safetensors.torch import load_file
if os.path.isdir(path): mm=N.load(Path(path),json.load(open(path+'/config.json'))); m=mm.eval()
else:
    t=N.unpacked({**N.word_table(Path('EXP/gpu/init')),**load_file(path)}); m.load_state_dict(t,strict=False)
if hasattr(m.t5,'set_attn_implementation'): m.t5.set_attn_implementation('eager')
f=figures(*read()); sc=score(f); tot=float(np.mean([v for k,v in sc.items() if not k.startswith(('span','retr'))]))
print(name,round(tot,5),sc); json.dump(f,open(f'EXP/cmp_{name}.json','w'))
