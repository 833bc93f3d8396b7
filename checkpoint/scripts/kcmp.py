import pickle
from scipy.stats import binomtest
a,b=(pickle.load(open(f'EXP/kbig_{n}.pkl','rb')) for n in('ship','C'))
for k in('answer removed','negated','roles exchanged'):
    x=[p>q for kk,p,q in a if kk==k]; y=[p>q for kk,p,q in b if kk==k]
    g=sum(v and not u for u,v in zip(x,y)); l=sum(u and not v for u,v in zip(x,y))
    print(k,len(x),round(sum(x)/len(x),4),round(sum(y)/len(y),4),'gained',g,'lost',l,'p',round(binomtest(l,g+l,alternative='greater').pvalue,4) if g+l else 1)
    print('  first 200',sum(x[:200])/200,sum(y[:200])/200)
