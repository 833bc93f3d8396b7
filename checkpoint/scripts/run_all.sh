# The judge, from checkpoint C on two cores. Set-up first (see the closing note): EXP with ckn (7d4f67c's checkpoint/),
# data, bdata, manuals, rows (g_rel, g_jud, pack), gpu (mkgpu), C_ema.st = model_without_words.safetensors, wt = worktree + ship.patch + recipe.patch.
cd EXP; P=ROOT/.venv/bin/python; export LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
[ -f ft/D/ema.pt ] || FROZEN=4 TOK=6000 ATT=eager $P next/ft.py ${SECONDS_:-3300} ft/D 5e-5 7 > ft/D.log 2>&1
export PYTHONPATH=EXP/wt
[ -d Draw ] || $P next/mkD.py ft/D/ema.pt Draw > mkD.log 2>&1
[ -f nD/model.onnx ] || (cd wt && $P ../assemble.py ../Draw ../nD && $P ../dig.py ../nD) > assemble.log 2>&1
export OMP_NUM_THREADS=1 RAYON_NUM_THREADS=1 SELFCRAG_EVALUATOR_THREADS=1
H="$P ../harness.py EXP/nD"
cd wt
($H EXP/nD_a.json EXP/nDA.pkl tests,kinds > ../nD_a.log 2>&1; $P ../calib.py EXP/nD EXP/nDA.pkl 2.2 .68 > ../nD_c.log 2>&1; $H EXP/nD_a2.json EXP/nDA.pkl actions,subjects > ../nD_a2.log 2>&1) &
($H EXP/nD_b.json EXP/nDB.pkl spans,validation,left_out > ../nD_b.log 2>&1; $P ../bars.py EXP/nD EXP/nDB.pkl EXP/nD_bars.out > ../nD_bars.log 2>&1; $H EXP/nD_b2.json EXP/nDB.pkl judgements > ../nD_b2.log 2>&1) &
wait
