cd .gpu; export OUT; mkdir -p /tmp/rows $OUT; t0=$(date +%s)
python3 -c "
import lzma,tarfile
tarfile.open('rows.txz','r:xz').extractall('/tmp/rows')"
echo unpacked $(( $(date +%s)-t0 )); nvidia-smi | sed -n 12,16p; nproc
cp -r . /tmp/gpu; cd /tmp/gpu
timeout 100 python3 -u train_gpu.py S 1e-4 .1 ${SMOKE:-10} 9 2>&1 | tail -15
test -f /tmp/S_final.pt || { echo SMOKE FAILED; exit 3; }
echo smoke $(( $(date +%s)-t0 ))
python3 -u train_gpu.py A 3e-4 .1 $T 1 > $OUT/A.log 2>&1 &
pa=$!
sleep 45; tail -n 2 $OUT/A.log
wait $pa; echo trained $(( $(date +%s)-t0 )); tail -n 3 $OUT/A.log
python3 -u final_gpu.py A 2>&1 | tee $OUT/final.log; echo end $(( $(date +%s)-t0 ))
