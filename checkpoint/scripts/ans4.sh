cd /work/exp/wint2b
mkdir -p /work/exp/svcans; rm -rf /work/exp/svcans; cp -a /work/exp/svc2 /work/exp/svcans
export SELFCRAG_DATA_DIR=/work/exp/svcans SELFCRAG_SEARCH=off SELFCRAG_PORT=8497 PYTHONPATH=/work/exp/wint2b
/work/main/.venv/bin/python -c "from app.cli import main; main()" serve > /work/exp/ans4_serve.log 2>&1 &
echo $! > /work/exp/ans4.pid
for i in $(seq 1 200); do curl -sf -o /dev/null http://127.0.0.1:8497/health/ready && break; sleep 1; done
cp /work/exp/wtmain/benchmarks/answers.json /work/exp/answers_before.json
/work/main/.venv/bin/python -m benchmarks.answers --url http://127.0.0.1:8497 --half reported --before /work/exp/answers_before.json > /work/exp/ans4.log 2>&1
kill $(cat /work/exp/ans4.pid)
