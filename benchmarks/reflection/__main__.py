"""Measures reflection: how many delays of a language model are waited for, by workflow and round.

    python -m benchmarks.reflection [--delay 1] [--times 3] [--rounds 3] [--workflows NAME ...]

Asks every workflow on the handbook, against a chat endpoint of fixed delay on loopback. Needs no
network and no data. Figures go to benchmarks/reflection.json and from there to the report
benchmarks/reflection.md. The machine should be idle.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.reflection.delays import Plan, on_delays
from benchmarks.reflection.runs import RunFailed, asker, read_handbook
from benchmarks.report import FOLDER, Figures, filled, say, write
from graphs.workflows.registry import IMAGE_WORKFLOW, WORKFLOWS

report = partial(filled, "reflection/report.md.j2")
COMMAND = "python -m benchmarks.reflection"
MEASURED = [name for name in WORKFLOWS if name != IMAGE_WORKFLOW]


async def measured(plan: Plan) -> Figures:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        say(f"read {await read_handbook(folder)} pages of the handbook")
        async with asker(folder) as asked:
            name = asked.services.evaluator.name
        delays = await on_delays(folder, plan)
    return {"command": COMMAND, "cores": os.cpu_count(), "evaluator": name, "delays": delays}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workflows", nargs="+", choices=MEASURED, default=MEASURED)
    parser.add_argument("--delay", type=float, default=Plan.delay_s, help="of the endpoint, s")
    parser.add_argument("--times", type=int, default=Plan.times, help="runs of each case")
    parser.add_argument("--rounds", type=int, default=Plan.rounds, help="most revisions")
    parser.add_argument("--out", type=Path, default=FOLDER / "reflection.json")
    chosen = parser.parse_args()
    plan = Plan(chosen.delay, chosen.times, chosen.rounds, chosen.workflows)
    write(chosen.out, asyncio.run(measured(plan)), report)


if __name__ == "__main__":
    try:
        main()
    except RunFailed as error:
        sys.exit(f"benchmarks.reflection: {error}")
