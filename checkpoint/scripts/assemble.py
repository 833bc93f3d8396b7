"""assemble.py P OUT: raw T5 folder P -> evaluator folder OUT (T5 + encoder + export)."""
import sys,shutil
from pathlib import Path
P,OUT=map(Path,sys.argv[1:3]); OUT.mkdir(exist_ok=True,parents=True)
from tokenizers import Tokenizer
from evaluator.training import embedder
from evaluator.training.onnx_export import export
from evaluator.training.pretrained_encoder import untrained
for n in('config.json','model.safetensors','tokenizer.json'): shutil.copy(P/n,OUT/n)
for n in('fusion.json','thresholds.json'): shutil.copy(f'EXP/ck6/{n}',OUT/n)
tok=Tokenizer.from_file(str(OUT/'tokenizer.json'))
embedder.write(*untrained(tok),OUT/'encoder')
shutil.copy('ROOT/evaluator/weights/encoder/centre.npy',OUT/'encoder/centre.npy')
shutil.copy('EXP/ck6/need.npy',OUT/'encoder/need.npy')
print(export(OUT))
import os; print(sum(p.stat().st_size for p in OUT.rglob('*') if p.is_file())/1e6,'MB',[p.name for p in (OUT/'encoder').iterdir()])
