"""Reproduces the papers' tables over published question files, a page an experiment.

    python -m benchmarks.reproduce [EXPERIMENT ...] --data FILE ... [--corpus FILE ...]

Formats are known by their fields (benchmarks/reproduce/formats.py). A file without contexts is
asked over a knowledge base of its own positive passages and the corpora of its language. The web is
recorded from the same passages, or searched as the settings say with --live-web. What was measured
is kept under --work and not asked again; figures and pages go to --out, the costs' alone differ
between runs. Models that the settings bring fill the rows that are blank by default.
"""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from benchmarks.reflection.runs import RunFailed
from benchmarks.report import Figures, say
from benchmarks.reproduce.experiments import EXPERIMENTS
from benchmarks.reproduce.formats import UnknownFormat
from benchmarks.reproduce.material import cases_of, knowledge_base, read_set, record_web
from benchmarks.reproduce.report import of_set, write_pages
from benchmarks.reproduce.runner import Bench, KeptValues, run

FOLDER = Path(__file__).parent


async def measure(chosen: argparse.Namespace) -> Figures:
    """Raises UnknownFormat, RunFailed."""
    experiments = {name: EXPERIMENTS[name] for name in chosen.experiments or EXPERIMENTS}
    figures: Figures = {}
    for path in chosen.data:
        found = read_set(path, chosen.corpus, chosen.limit, chosen.seed)
        folder = chosen.work / f"{found.name}-{found.digest}"
        folder.mkdir(parents=True, exist_ok=True)
        base = await knowledge_base(found, folder)
        web = None
        if not chosen.live_web:
            web = await record_web(found, base, folder / "web.json", chosen.seed)
        cases = await cases_of(found, base)
        kept = KeptValues(folder / "values.jsonl")
        bench = Bench(found, cases, folder, web, kept, chosen.seed, say)
        models, results = await run(experiments, bench)
        figures[found.name] = await of_set(bench, models, results)
    return figures


def main(chosen: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.ERROR)
    figures = asyncio.run(measure(chosen))
    written = write_pages(figures, chosen.out, chosen.seed, chosen.limit)
    say(f"wrote {', '.join(path.name for path in written)} in {chosen.out}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT",
                        help=f"of {', '.join(EXPERIMENTS)}; left out: all")  # fmt: skip
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="question files")
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], help="more passages")
    parser.add_argument("--limit", type=int, default=0, help="questions of a set; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--live-web", action="store_true", help="search as SELFCRAG_SEARCH says")
    parser.add_argument("--work", type=Path, default=Path(".selfcrag/reproduce"),
                        help="indexes, recordings, what was measured")  # fmt: skip
    parser.add_argument("--out", type=Path, default=FOLDER, help="pages and figures")
    chosen = parser.parse_args()
    if unknown := set(chosen.experiments) - set(EXPERIMENTS):
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}")
    return chosen


if __name__ == "__main__":
    try:
        main(arguments())
    except (UnknownFormat, RunFailed) as error:
        sys.exit(f"benchmarks.reproduce: {error}")
