"""bars.py WEIGHTS CACHE OUT: judged support and grade of calibration cases (200 a kind)"""
import sys,pickle; sys.path.insert(0,'EXP')
import cachelib
w,c,o=sys.argv[1:4]
cachelib.install(c)
from pathlib import Path
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
from evaluator.data import records
from evaluator.data.synthetic import material
from evaluator.data.synthetic.build import cases
from evaluator.calibration import acceptance
data=Path('EXP/data')
key=records.division(records.read_folder(data),6)
held=material.read_material(data,lambda g:records.held_back(g,6),key)
cs=cases(held,1,150)
sc=S.scores_of(S.load_scorer(read_settings(weights=Path(w)),fused=False))
g=acceptance.judged(cs,sc)
pickle.dump([(x.language,x.kind,x.right,a,b) for x,a,b in zip(cs,g.support,g.grade)],open(o,'wb'))
print(len(cs))
