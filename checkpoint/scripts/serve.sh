#!/bin/bash
# serve.sh WEIGHTS PORT [SRC]
SRC=${3:-/work/main}
cd $SRC && SELFCRAG_DATA_DIR=/work/exp/svc SELFCRAG_EVALUATOR_WEIGHTS=$1 SELFCRAG_PORT=$2 PYTHONPATH=$SRC /work/main/.venv/bin/selfcrag serve > /tmp/serve_$2.log 2>&1 & echo $! > /tmp/serve_$2.pid
for i in $(seq 1 60); do curl -s -o /dev/null http://127.0.0.1:$2/health/ready && break; sleep 1; done
curl -s http://127.0.0.1:$2/health/ready | head -c 600
