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
from evaluator.settings import PREFIX
from graphs.workflows import WORKFLOWS

FIGURES = Path(__file__).with_suffix(".json")
STARTED = time.monotonic()


async def measure(chosen: argparse.Namespace, figures: Figures) -> None:
    """Fill `figures` with the sections that were asked for."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        say(f"read {await read_handbook(folder)} pages of the handbook")
        if chosen.only != "delays":
            figures["questions"] = await on_questions(folder, chosen, figures)
        if chosen.only != "questions":
            # A score known from the time before would cost nothing.
            os.environ[f"{PREFIX}SCORE_CACHE_PAIRS"] = "0"
            plan = Plan(chosen.delay, chosen.times, chosen.rounds, chosen.workflows)
            figures["delays"] = await on_delays(folder, plan)


async def on_questions(folder: Path, chosen: argparse.Namespace, figures: Figures) -> Figures:
    found: Figures = {"half": chosen.half, "workflows": {}, "rows": {}}
    for name in chosen.workflows:
        async with asker(folder, generator="extractive") as asked:  # each with an empty cache
            figures["evaluator"] = asked.services.evaluator.name
            rows = {
                lang: await rows_of(asked, name, questions(lang, chosen.half)[: chosen.most])
                for lang in LANGUAGES
            }
        found["rows"][name] = rows
        found["workflows"][name] = {lang: summary(rows[lang]) for lang in LANGUAGES}
        say(f"asked: {name}")
    return found


def main(chosen: argparse.Namespace) -> None:
    figures = json.loads(chosen.out.read_text("utf-8")) if chosen.out.exists() else {}
    if not chosen.report:
        command = " ".join(["python -m benchmarks.reflection", *sys.argv[1:]])
        figures |= {"command": command, "cores": os.cpu_count()}
        asyncio.run(measure(chosen, figures))
        chosen.out.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    path = chosen.out.with_suffix(".md")
    path.write_text(report(figures), "utf-8")
    say(f"figures in {chosen.out}, report in {path}")


def say(line: str) -> None:
    sys.stderr.write(f"{time.monotonic() - STARTED:5.0f} s  {line}\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=("dev", "test"), default="test",
                        help="of the questions; dev is for tuning")  # fmt: skip
    parser.add_argument("--only", choices=("questions", "delays"))
    parser.add_argument("--workflows", nargs="+", choices=list(WORKFLOWS), default=list(WORKFLOWS))
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
