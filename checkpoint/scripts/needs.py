import numpy as np,pickle
from pathlib import Path
from evaluator.data.synthetic.retrieval import needs
from evaluator.inference.onnx_embedder import OnnxEmbedder
from evaluator.settings import read_settings
rows=needs(('en','zh'),1)
out={}
for name,folder in (('new','EXP/n6/encoder'),):
    v,_=OnnxEmbedder(Path(folder),read_settings()).embed([r.first for r in rows],'query')
    out[name]=v
pickle.dump(([ (r.first,r.label,r.group,r.kind,r.language) for r in rows],out),open('EXP/needvec.pkl','wb'))
print(len(rows))
