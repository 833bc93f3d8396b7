"""Write gpu/net.py: the project's T5 as one file without the project's other modules; and gpu/init"""
import re,json,sys
from pathlib import Path
sys.path.insert(0,'EXP/wt')
from evaluator.model.checkpoint import *
from evaluator.model import checkpoint as C
from evaluator.model.tokenization import REFLECTION_TOKENS,SEPARATOR,SPECIAL_TOKENS,UNKNOWN
from evaluator.schema import TASKS,LABELS,UTILITY_WEIGHTS
src=Path('EXP/wt/evaluator/model/t5.py').read_text()
body=re.sub(r"from evaluator\.\S+ import (?:\([^)]*\)|[^\n]*)\n","",src)
names={n:getattr(C,n) for n in re.findall(r"\b[A-Z_]{4,}\b",src) if hasattr(C,n)}
consts='\n'.join(f"{k} = {v!r}" for k,v in {**names,'REFLECTION_TOKENS':REFLECTION_TOKENS,'SEPARATOR':SEPARATOR,'SPECIAL_TOKENS':SPECIAL_TOKENS,'UNKNOWN':UNKNOWN,'TASKS':TASKS,'LABELS':LABELS,'UTILITY_WEIGHTS':tuple(UTILITY_WEIGHTS)}.items())
consts+="\nclass WeightsError(Exception): pass\n"
mark=body.index("FIRST_TASK =")
out=Path('EXP/gpu'); out.mkdir(exist_ok=True)
(out/'net.py').write_text(body[:mark]+consts+'\n'+body[mark:])
from evaluator.training.train import *
tok=Tokenizer.from_file('ROOT/evaluator/weights/encoder/tokenizer.json')
torch.manual_seed(11)
net=EvaluatorModel(ModelConfig(tok.get_vocab_size()))
fill(net,read_source(source_path()),tok)
t5.save(net,out/'init')
import os;print(os.path.getsize(out/'init/model.safetensors')/1e6)
