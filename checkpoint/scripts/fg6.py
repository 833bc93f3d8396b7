exec(open('fg3.py').read().split("cur=(")[0])
import json
old=json.load(open('ROOT/evaluator/weights/figures.json'))['held']
for p in((20,0,2,.13),(40,0,2,.13),(40,.3,4,.13),(60,0,2,.13),(60,.3,4,.13),(60,.5,8,.13),(80,.5,8,.13)):
    h,t=(rates(D,*p,0,9) for D in(H,T))
    print(p,'held',round(np.mean(list(h.values())),4),'test',round(np.mean(list(t.values())),4),'below shipped:',{f'{l} {k}':(round(1-v,3),old[f'kinds {l} {k}']) for (l,k),v in t.items() if 1-v<old[f'kinds {l} {k}']-1e-9})
