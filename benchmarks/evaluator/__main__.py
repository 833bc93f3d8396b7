"""Measures an evaluator: relevance, manuals, actions, judgements, spans, contamination.

    python -m benchmarks.evaluator DATA [--weights DIR] [--most 300]

DATA is the folder with the published question sets. Figures go to benchmarks/evaluator.json and
from there to the report benchmarks/evaluator.md; `--report` alone writes that anew from the
figures; `--resume` goes on where a run broke off. About half an hour on 2 free CPU cores.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.evaluator.actions import on_actions
from benchmarks.evaluator.judgements import on_judgements
from benchmarks.evaluator.kinds import on_acceptance, on_kinds
from benchmarks.evaluator.manuals import MOST, idf_overlap, on_manuals, pools
from benchmarks.evaluator.ratchet import changes, kept
from benchmarks.evaluator.relevance import (
    HELD_BACK_PERCENT,
    Bench,
    in_pools,
    on_subjects,
    on_tests,
    on_validation,
    training_records,
)
from benchmarks.evaluator.spans import on_spans
from benchmarks.report import FOLDER, Figures, filled, say, write
from evaluator.calibration.acceptance import AnswerBars
from evaluator.calibration.evaluate import Score
from evaluator.errors import DataError, EvaluatorError
from evaluator.inference.scorer import load_scorer, load_similarity, scores_of
from evaluator.model.checkpoint import ENCODER_FOLDER, load_thresholds, weights_digest
from evaluator.settings import WEIGHTS, EvaluatorSettings
from evaluator.training.untrained import cosines as by_cosine

FIGURES = FOLDER / "evaluator.json"


def main(chosen: argparse.Namespace) -> None:
    figures = json.loads(chosen.out.read_text("utf-8")) if chosen.report else measured(chosen)
    if chosen.before:
        figures["before"] = json.loads(chosen.before.read_text("utf-8"))
    write(chosen.out, figures, report)
    if chosen.keep and not chosen.report:
        text = json.dumps(kept(figures, weights_digest(chosen.weights)), indent=1) + "\n"
        (chosen.weights / "figures.json").write_text(text, "utf-8")
    say(f"figures in {chosen.out}, report beside it")


def measured(chosen: argparse.Namespace) -> Figures:
    """All figures of one weights folder, kept after each part so that a break loses little."""
    settings = EvaluatorSettings(weights=chosen.weights, backend=chosen.backend)
    scorer = load_scorer(settings)
    cosines = by_cosine if chosen.e5 else None
    relevance = partial(scores_of(scorer), "relevance")
    thresholds, whole = load_thresholds(chosen.weights), chosen.left_out
    grade = in_pools(scorer, thresholds.pool)
    bench = Bench(chosen.data, relevance, grade, cosines, chosen.most, chosen.seed)
    training = training_records(chosen.data)
    head = {
        "evaluator": scorer.name,
        "tasks": list(scorer.tasks),
        "seed": chosen.seed,
        "most": chosen.most,
        "held_back_percent": HELD_BACK_PERCENT,
    }
    figures = begun(chosen.out, head) if chosen.resume else head
    before, started = figures.get("minutes", 0.0), time.monotonic()

    def part(measure: Callable[[], tuple[Figures, ...]], *keys: str) -> None:
        if all(key in figures for key in keys):
            say(f"kept: {', '.join(keys)}")
            return
        figures.update(zip(keys, measure(), strict=True))
        figures["minutes"] = round(before + (time.monotonic() - started) / 60, 1)
        write(chosen.out, figures, report)
        say(f"measured: {', '.join(keys)}")

    part(lambda: on_tests(bench, training), "tests", "seen")
    part(lambda: (on_kinds(bench),), "kinds")
    bars = AnswerBars(thresholds.support, thresholds.utility)
    part(lambda: (on_acceptance(bench, scores_of(scorer), bars),), "acceptance")
    part(lambda: (on_actions(bench, training, thresholds),), "actions")
    if "answer" in scorer.tasks:  # it reads across the texts
        part(lambda: (on_spans(bench, scorer),), "spans")
    part(lambda: (on_subjects(bench, whole="en_popqa" in whole),), "subjects")
    part(lambda: on_validation(bench, training, whole), "validation", "left_out")
    part(lambda: (on_judgements(bench, scorer, say),), "judgements")
    if chosen.manuals:
        asked = pools(chosen.manuals, MOST, chosen.seed)
        scorers: dict[str, Score] = {"evaluator": relevance, "overlap": idf_overlap(asked)}
        if cosines:
            scorers["e5"] = cosines
        near = similarities(settings) if (chosen.weights / ENCODER_FOLDER).is_dir() else None
        bounds = thresholds.upper, thresholds.lower
        part(lambda: (on_manuals(asked, scorers, near, grade, *bounds),), "manuals")
    return figures


def report(figures: Figures) -> str:
    """The page, with all sections for which there are figures."""
    before, manuals = figures.get("before"), figures.get("manuals", {})
    compared = changes(before, kept(figures, "")) if before else []
    return filled(
        "evaluator/report.md.j2",
        figures,
        groups=[name.removesuffix(" selective") for name in manuals if " selective" in name],
        changes=compared,
        higher=sum(it.now > it.before for it in compared),
        lower=sum(it.now < it.before for it in compared),
    )


def similarities(settings: EvaluatorSettings) -> Score:
    """The similarity of question and text that the service tells with each grade."""
    encoder = load_similarity(settings)
    return lambda pairs: [near for near, _ in encoder.of(pairs)]


def begun(path: Path, head: Figures) -> Figures:
    """The figures that a run with this head left behind; DataError when another run did."""
    try:
        figures: Figures = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} holds no figures to go on with: {error}.") from error
    if other := [key for key, value in head.items() if figures.get(key) != value]:
        raise DataError(f"{path} holds another run's figures (other {', '.join(other)}).")
    return figures


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="folder with the question sets")
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--backend", choices=("onnx", "torch"), default="onnx")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=300, help="most questions of a set")
    parser.add_argument("--left-out", nargs="*", default=[], metavar="SET",
                        help="sets these weights were not trained on: measured whole")  # fmt: skip
    parser.add_argument("--manuals", type=Path,
                        help="held-out entries of evaluator.data.manuals")  # fmt: skip
    parser.add_argument("--before", type=Path,
                        help="figures.json of the weights that are replaced")  # fmt: skip
    parser.add_argument("--keep", action="store_true",
                        help="write figures.json beside the weights")  # fmt: skip
    parser.add_argument("--no-e5", dest="e5", action="store_false")
    parser.add_argument("--out", type=Path, default=FIGURES, help="JSON; the report beside it")
    parser.add_argument("--resume", action="store_true",
                        help="keep the parts that --out holds of the same evaluator")  # fmt: skip
    parser.add_argument("--report", action="store_true", help="only write the report anew")
    chosen = parser.parse_args()
    if chosen.data is None and not chosen.report:
        parser.error("DATA is needed to measure")
    return chosen


if __name__ == "__main__":
    try:
        main(arguments())
    except EvaluatorError as error:
        sys.exit(f"benchmarks.evaluator: {error}")
