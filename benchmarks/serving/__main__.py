"""Measures the worker: batching, padding, cost of a batch, load, overload, hostile requests.

    python -m benchmarks.serving [--quick] [--only SECTION ...]

Needs no data: its texts are drawn by seed. Figures go to benchmarks/serving.json and from there to
the report benchmarks/serving.md; `--report` alone writes that anew. About 20 minutes on 2 free CPU
cores, 1 with `--quick`. The machine should be idle.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.report import FOLDER, Figures, filled, say, write
from benchmarks.serving.batches import allowed_s, on_cost, on_padding
from benchmarks.serving.hostile import on_hostile, on_killed
from benchmarks.serving.load import on_overload, on_throughput, worker
from benchmarks.serving.model import (
    QUICK,
    Plan,
    Texts,
    Workload,
    on_grading,
    on_repeated,
)
from evaluator.errors import EvaluatorError
from evaluator.inference.scorer import Scorer, load_scorer
from evaluator.serving.batching import Limits
from evaluator.settings import WEIGHTS, EvaluatorSettings

report = partial(filled, "serving/report.md.j2")
FIGURES = FOLDER / "serving.json"


def main(chosen: argparse.Namespace) -> None:
    if chosen.report:
        figures = json.loads(chosen.out.read_text("utf-8"))
    else:
        given = {"backend": chosen.backend} if chosen.backend else {}
        settings = EvaluatorSettings(weights=chosen.weights.resolve(), **given)
        plan = replace(QUICK if chosen.quick else Plan(), seed=chosen.seed)
        plan = plan if chosen.minutes is None else replace(plan, minutes=chosen.minutes)
        figures = {"command": " ".join(["python -m benchmarks.serving", *sys.argv[1:]])}
        measure(settings, plan, figures, lambda: keep(chosen.out, figures), chosen.only)
    keep(chosen.out, figures)
    say(f"figures in {chosen.out}, report beside it")


def keep(path: Path, figures: Figures) -> None:
    """Write figures and report; of sections measured apart those written before stay."""
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    commands = before.get("commands", [])
    if figures.get("command") not in (None, *commands):
        commands = [*commands, figures["command"]]
    figures = before | figures | {"commands": commands}
    write(path, figures, report)


def measure(
    settings: EvaluatorSettings,
    plan: Plan,
    figures: Figures,
    kept: Callable[[], None] = lambda: None,
    only: Collection[str] = (),
) -> None:
    """Fill `figures`, section by section, or `only` some; `kept` is called after each."""
    scorer = load_scorer(settings)
    figures |= {
        "evaluator": scorer.name, "backend": settings.backend, "cores": os.cpu_count(),
        "batch_tokens": settings.batch_tokens, "max_queued_pairs": Limits().max_queued_pairs,
        "seed": plan.seed,
    }  # fmt: skip
    sections = _sections(settings, scorer, plan, figures)
    for name in only or sections:
        figures[name] = sections[name]()
        kept()
        say(f"measured: {name}")


def _sections(
    settings: EvaluatorSettings,
    scorer: Scorer,
    plan: Plan,
    figures: Figures,
) -> dict[str, Callable[[], object]]:
    """What each section measures, in the order they are run."""
    texts = Texts(plan.seed + 2)
    asked = [texts.workload() for _ in range(plan.questions)]

    def load() -> Figures:
        figures["cost"], found = _cost_and_load(settings, scorer, asked, plan)
        return found

    def overload() -> Figures:
        sustained = figures.get("load", {}).get("pairs_per_s", 0.0)
        with worker(settings) as served:
            return asyncio.run(on_overload(served, sustained, plan))

    def hostile() -> list[Figures]:
        with worker(settings) as served:
            return asyncio.run(on_hostile(served, plan))

    return {
        "grading": lambda: asyncio.run(on_grading(settings, plan)),
        "repeated": lambda: asyncio.run(on_repeated(settings, scorer, plan)),
        "padding": lambda: asyncio.run(on_padding(settings, scorer, plan)),
        "load": load,
        "hostile": hostile,
        "killed": lambda: asyncio.run(on_killed(settings, asked)),
        "overload": overload,
    }


def _cost_and_load(
    settings: EvaluatorSettings, scorer: Scorer, asked: Sequence[Workload], plan: Plan
) -> tuple[Figures, Figures]:
    """What batches cost, and the throughput beside what that allows for the same pairs."""
    cost, model = on_cost(scorer, plan)
    needed_s = allowed_s(scorer, asked, model, settings)
    with worker(settings) as served:
        load = asyncio.run(on_throughput(served, asked, plan))
    drift = _drift(cost, on_cost(scorer, plan)[0])
    needed_s *= (1 + drift) / 2  # what else the machine does changes its speed
    allowed = {"allowed_pairs_per_s": load["pairs"] / needed_s, "share": needed_s / load["s"]}
    return cost, load | allowed | {"drift": drift}


def _drift(before: Figures, after: Figures) -> float:
    """How many times as long the same batches take now."""
    pairs = zip(after["grid"], before["grid"], strict=True)
    return float(statistics.median(one["s"] / other["s"] for one, other in pairs))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--backend", choices=("onnx", "torch"), help="as configured if left out")
    parser.add_argument("--quick", action="store_true", help="a minute, rough figures")
    parser.add_argument("--only", nargs="+", default=[], metavar="SECTION",
                        help="only these sections; the figures of others stay")  # fmt: skip
    parser.add_argument("--minutes", type=float, help="of overload")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FIGURES, help="JSON; the report beside it")
    parser.add_argument("--report", action="store_true", help="only write the report anew")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main(arguments())
    except EvaluatorError as error:
        sys.exit(f"benchmarks.serving: {error}")
