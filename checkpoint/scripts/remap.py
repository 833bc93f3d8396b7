import pickle,collections,sys
new=sys.argv[1]; m={}
for f in('nCB','nCF','nCA'):
    d=pickle.load(open(f'{f}.pkl','rb')); c=collections.Counter((k[1] if k[0]=='span' else k[0]) for k in d); print(f,c)
    for k,v in d.items():
        m[('span',new)+k[2:] if k[0]=='span' else (new,)+k[1:]]=v
pickle.dump(m,open('nCM.pkl','wb'),4); print(len(m))
