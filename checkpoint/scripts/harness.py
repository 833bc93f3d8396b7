"""harness.py WEIGHTS OUT CACHE PARTS [--resume]: benchmarks.evaluator with cached readings, only the named parts (comma) or all"""
import sys,json,pickle,os,atexit
sys.path.insert(0,'EXP')
import cachelib
weights,out,cache,parts=sys.argv[1:5]
mem,vec,save=cachelib.install(cache)
import evaluator.training.untrained as U
cospath='EXP/cos_%s.pkl'%('wt' if '/wt/' in U.__file__ else 'main')
cos=pickle.load(open(cospath,'rb')) if os.path.exists(cospath) else {}
real=U.cosines; c0=len(cos)
def cached(pairs):
    new=[p for p in dict.fromkeys(pairs) if p not in cos]
    if new: cos.update(zip(new,real(new)))
    return [cos[p] for p in pairs]
U.cosines=cached
def savecos():
    if len(cos)>c0:
        old=pickle.load(open(cospath,'rb')) if os.path.exists(cospath) else {}
        old.update(cos); pickle.dump(old,open(cospath+str(os.getpid()),'wb'),4); os.replace(cospath+str(os.getpid()),cospath)
atexit.register(savecos)
import benchmarks.evaluator.__main__ as M
from pathlib import Path
want=None if parts=='all' else set(parts.split(','))
src=open(M.__file__).read()
if want is not None:
    src=src.replace("        if all(key in figures for key in keys):","        if not set(keys)&WANT: return\n        if all(key in figures for key in keys):")
src=src.replace("        write(chosen.out, figures, report)","        chosen.out.write_text(json.dumps(figures)); SAVE()")
ns={'__name__':'bench','WANT':want,'SAVE':lambda:(save(),savecos())}
sys.argv=['x','EXP/bdata','--weights',weights,'--most','120','--seed','1','--manuals','EXP/manuals/manual_held.jsonl.gz','--out',out]
exec(compile(src,M.__file__,'exec'),ns)
chosen=ns['arguments']()
figures=ns['measured'](chosen)
Path(out).write_text(json.dumps(figures))
from benchmarks.evaluator.ratchet import held
h=held(figures); old=json.load(open('ROOT/evaluator/weights/figures.json'))['held']
for k,v in h.items():
    o=old.get(k); print(('LOWER ' if o is not None and v<o else 'same  ' if v==o else 'rise  '),k,o,v)
