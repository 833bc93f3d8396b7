"""Measures reflection: what becomes of first drafts, and how long a language model is waited for.

    python -m benchmarks.reflection [--half test] [--only questions|delays] [--workflows NAME ...]

Asks the two-part questions of benchmarks/two_part_{en,zh}.json on the handbook without a language
model, then every workflow against a chat endpoint of fixed delay on loopback. Needs no network and
no data. Figures go to benchmarks/reflection.json and from there to the report
benchmarks/reflection.md; `--report` alone writes that anew. The machine should be idle.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.reflection_delays import Figures, Plan, on_delays
from benchmarks.reflection_questions import LANGUAGES, questions, rows_of, summary
from benchmarks.reflection_report import report
from benchmarks.reflection_runs import RunFailed, asker, read_handbook
from graphs.workflows.registry import IMAGE_WORKFLOW, WORKFLOWS

COMMAND = "python -m benchmarks.reflection"
TOLD = [name for name in WORKFLOWS if name != IMAGE_WORKFLOW]
FIGURES = Path(__file__).with_suffix(".json")
STARTED = time.monotonic()


async def measure(chosen: argparse.Namespace, figures: Figures) -> None:
    """Measure the parts that were asked for; each is kept as soon as it is there."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        say(f"read {await read_handbook(folder)} pages of the handbook")
        if chosen.only != "delays":
            await on_questions(folder, chosen, figures)
        if chosen.only != "questions":
            plan = Plan(chosen.delay, chosen.times, chosen.rounds, chosen.workflows)
            figures["delays"] = await on_delays(folder, plan)
            keep(chosen.out, figures)


async def on_questions(folder: Path, chosen: argparse.Namespace, figures: Figures) -> None:
    """Workflow by workflow, beside what was measured of others on the same half."""
    found = figures.get("questions", {})
    if found.get("half") != chosen.half:
        found = {"half": chosen.half, "workflows": {}, "rows": {}}
    figures["questions"] = found
    for name in chosen.workflows:
        async with asker(folder, generator="extractive") as asked:  # each with an empty cache
            figures["evaluator"] = asked.services.evaluator.name
            rows = {
                lang: await rows_of(asked, name, questions(lang, chosen.half)[: chosen.most])
                for lang in LANGUAGES
            }
        found["rows"][name] = rows
        found["workflows"][name] = {lang: summary(rows[lang]) for lang in LANGUAGES}
        keep(chosen.out, figures)
        say(f"asked: {name}")


def keep(path: Path, figures: Figures) -> None:
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    path.with_suffix(".md").write_text(report(figures), "utf-8")


def main(chosen: argparse.Namespace) -> None:
    figures = json.loads(chosen.out.read_text("utf-8")) if chosen.out.exists() else {}
    if chosen.report:
        keep(chosen.out, figures)
    else:
        figures |= {"command": COMMAND, "cores": os.cpu_count()}
        asyncio.run(measure(chosen, figures))
    say(f"figures in {chosen.out}, report beside it")


def say(line: str) -> None:
    sys.stderr.write(f"{time.monotonic() - STARTED:5.0f} s  {line}\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=("dev", "test"), default="test",
                        help="of the questions; dev is for tuning")  # fmt: skip
    parser.add_argument("--only", choices=("questions", "delays"))
    parser.add_argument("--workflows", nargs="+", choices=TOLD, default=TOLD)
    parser.add_argument("--most", type=int, help="questions a language")
    parser.add_argument("--delay", type=float, default=Plan.delay_s, help="of the endpoint, s")
    parser.add_argument("--times", type=int, default=Plan.times, help="runs of each case")
    parser.add_argument("--rounds", type=int, default=Plan.rounds, help="most revisions")
    parser.add_argument("--out", type=Path, default=FIGURES, help="JSON; the report beside it")
    parser.add_argument("--report", action="store_true", help="only write the report anew")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main(arguments())
    except RunFailed as error:
        sys.exit(f"benchmarks.reflection: {error}")
