exec(open('cal4.py').read().split("for sim in")[0])
cs=((1,3,.74),(1,4,.79),(1,5,.82),(1,6,.84),(.5,3,.4),(.5,3,.42))
res,ths,g=run(sim=45.,verbose=False,costs=cs)
for c,t in zip(cs,ths):
    print(c,round(t.upper,3),round(t.lower,3),'acc en %.3f zh %.3f'%(t.figures['en_accuracy'],t.figures['zh_accuracy']),'amb',t.figures['en_ambiguous_share'],t.figures['zh_ambiguous_share'])
for up in(-.27,-.35,-.4,-.45,-.5,-.6):
    f=fig(g,up,up-.01); print(up); [print('   ',k,v.split('first')[1][5:]) for k,v in f.items()]
