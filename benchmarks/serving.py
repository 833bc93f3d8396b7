"""Measures the worker: batching, padding, cost of a batch, load, overload, hostile requests.

    python -m benchmarks.serving [--quick] [--weights DIR] [--other SETTING=VALUE ...]

Needs no data: its texts are drawn by seed. `--other` names what makes the second form of the
weights (`--other weights=DIR`). Figures go to benchmarks/serving.json and from there to the report
benchmarks/serving.md; `--report` alone writes that anew. About 20 minutes on 2 free CPU cores,
1 with `--quick`. The machine should be idle.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.serving_batches import allowed_s, on_cost, on_padding
from benchmarks.serving_hostile import on_hostile
from benchmarks.serving_load import on_overload, on_throughput, worker
from benchmarks.serving_model import QUICK, Figures, Plan, on_forms, on_grading
from benchmarks.serving_report import report
from evaluator.errors import EvaluatorError
from evaluator.scoring import load_scorer
from evaluator.settings import WEIGHTS, EvaluatorSettings
from evaluator.workload import Texts

FIGURES = Path(__file__).with_suffix(".json")
STARTED = time.monotonic()


def main(chosen: argparse.Namespace) -> None:
    if chosen.report:
        figures = json.loads(chosen.out.read_text("utf-8"))
    else:
        given = {"backend": chosen.backend} if chosen.backend else {}
        settings = EvaluatorSettings(
            weights=chosen.weights.resolve(), score_cache_pairs=0, **given
        )  # a score known already would cost nothing
        other = _other(settings, chosen.other)
        plan = replace(QUICK if chosen.quick else Plan(), seed=chosen.seed)
        plan = plan if chosen.minutes is None else replace(plan, minutes=chosen.minutes)
        figures = {"command": " ".join(["python -m benchmarks.serving", *sys.argv[1:]])}
        measure(settings, other, plan, figures, lambda: keep(chosen.out, figures))
        if other is not None:
            figures["forms"]["second"] = " ".join(chosen.other)
    keep(chosen.out, figures)
    path = chosen.out.with_suffix(".md")
    path.write_text(report(figures), "utf-8")
    say(f"figures in {chosen.out}, report in {path}")


def keep(path: Path, figures: Figures) -> None:
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _other(settings: EvaluatorSettings, told: list[str]) -> EvaluatorSettings | None:
    if not told:
        return None
    changed = dict(setting.partition("=")[::2] for setting in told)
    return EvaluatorSettings.model_validate({**settings.model_dump(), **changed})


def measure(
    settings: EvaluatorSettings,
    other: EvaluatorSettings | None,
    plan: Plan,
    figures: Figures,
    kept: Callable[[], None] = lambda: None,
) -> None:
    """Fill `figures`, section by section; `kept` is called after each."""

    def part(name: str, found: object) -> None:
        figures[name] = found
        figures["minutes"] = round((time.monotonic() - STARTED) / 60, 1)
        kept()
        say(f"measured: {name}")

    scorer = load_scorer(settings)
    figures |= {
        "evaluator": scorer.name, "backend": settings.backend, "cores": os.cpu_count(),
        "batch_tokens": settings.batch_tokens, "max_queued_pairs": settings.max_queued_pairs,
        "seed": plan.seed,
    }  # fmt: skip
    part("grading", asyncio.run(on_grading(settings, plan)))
    part("forms", on_forms(settings, other, plan))
    part("padding", asyncio.run(on_padding(settings, scorer, plan)))
    cost, model = on_cost(scorer, plan)
    part("cost", cost)
    texts = Texts(plan.seed + 2)
    asked = [texts.asked() for _ in range(plan.questions)]
    needed_s = allowed_s(scorer, asked, model, settings)
    with worker(settings) as served:
        load = asyncio.run(on_throughput(served, asked, plan))
        load |= {"allowed_pairs_per_s": load["pairs"] / needed_s, "share": needed_s / load["s"]}
        part("load", load)
        part("hostile", asyncio.run(on_hostile(served, settings, plan)))
        part("overload", asyncio.run(on_overload(served, load["pairs_per_s"], plan)))


def say(line: str) -> None:
    sys.stderr.write(f"{time.monotonic() - STARTED:5.0f} s  {line}\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--backend", choices=("onnx", "torch"), help="as configured if left out")
    parser.add_argument("--other", nargs="+", default=[], metavar="SETTING=VALUE",
                        help="the second form of the weights")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a minute, rough figures")
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
