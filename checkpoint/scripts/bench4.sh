cd /work/exp/wint
PYTHONPATH=$PWD /work/main/.venv/bin/python -m benchmarks.evaluator /work/shared/data --no-e5 --most 120 --seed 1 --manuals /work/exp/md2/held_users.jsonl.gz --weights evaluator/weights --out /work/exp/eval4/evaluator.json > /work/exp/bench4.log 2>&1
