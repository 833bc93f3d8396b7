exec(open('fg3.py').read().split("cur=(")[0])
for sim,rep,doubt,free in((0,0,0,.13),(10,0,2,.13),(20,0,2,.13),(25,0,2,.13),(30,0,2,.13),(40,0,2,.13),(30,.3,2,.13),(20,0,0,.13),(20,0,4,.13),(30,0,4,.13),(20,.3,2,.13)):
    h,t=(rates(D,sim,rep,doubt,free,0,9) for D in(H,T))
    f=lambda r,l:{k[1][:14]:round(v,3) for k,v in r.items() if k[0]==l and k[1] in('answer removed','negated','roles exchanged','neighbour sentence','nobody knows','only points')}
    print((sim,rep,doubt),'held',round(np.mean(list(h.values())),4),f(h,'en'),'| test',round(np.mean(list(t.values())),4),f(t,'en'))
