import sys,pickle,json; sys.path.insert(0,'EXP')
import cachelib
cachelib.install('EXP/nCB.pkl')
from pathlib import Path
import numpy as np
import evaluator.inference.scorer as S
from evaluator.settings import read_settings
from benchmarks.evaluator.kinds import *
from benchmarks.evaluator.kinds import TESTS
mats=[]
for name in TESTS:
    mats+=[m for r in read_file(file_of(Path('EXP/bdata'),name)) if (m:=material_of(r,by_passage))]
made=cases(mats,1,MOST,WORDINGS)
g=judged(made,S.scores_of(S.load_scorer(read_settings(weights=Path('EXP/nC')),fused=False)))
pickle.dump([(c.language,c.kind,c.kind in RIGHT,a,b) for c,a,b in zip(g.cases,g.support,g.grade)],open('EXP/nC_acc_test.out','wb'))
