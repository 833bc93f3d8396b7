"""Finds upper, lower and the strip floor for one checkpoint from labelled questions.

Upper and lower are the pair that costs least (`evaluator.actions`), the same for both languages;
the strip floor is the highest one that keeps nearly all strips that answer.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from evaluator.calibration.action_costs import (
    ANY,
    Bools,
    Costs,
    Floats,
    Graded,
    Least,
    Outcomes,
    TradeOff,
    accuracy_interval,
    accuracy_unseen,
    action_figures,
    choose,
    trade_offs,
)
from evaluator.data.labelled import LabelledQuestion, check_classes
from evaluator.errors import DataError
from evaluator.schema import THRESHOLDS_FILE, Thresholds, weights_digest

Score = Callable[[Sequence[tuple[str, str]]], list[float]]
_Rows = list[tuple[float, bool]]  # scores, and whether each answers

STRIPS_KEPT = 0.95


@dataclass(frozen=True)
class Strips:
    """The scores of one language's strips, those that answer and those that do not."""

    answering: Floats
    others: Floats


@dataclass(frozen=True)
class Calibration:
    """Thresholds, not yet bound to weights, and what they were found on, by language."""

    thresholds: Thresholds
    outcomes: Outcomes
    strips: Mapping[str, Strips]
    trade_offs: Sequence[TradeOff]


@dataclass(frozen=True)
class Aims:
    """What thresholds are chosen for.

    `least_precision` of Correct and Incorrect holds in every language; 0 asks for none.
    `strips_kept` is the share of answering strips at or above the floor.
    """

    costs: Costs = field(default_factory=Costs)
    least_precision: Least = ANY
    strips_kept: float = STRIPS_KEPT
    seed: int = 1


def calibrate(
    questions: Sequence[LabelledQuestion], score: Score, aims: Aims | None = None
) -> Calibration:
    """Thresholds for the scorer. DataError where no language has both kinds of question.

    A language whose questions are all answered, or none, is measured but decides nothing.
    """
    aims = aims or Aims()
    check_classes(questions, "calibration")
    outcomes, strips = _scored(questions, score)
    deciding = {name: found for name, found in outcomes.items() if 0 < found.answered.mean() < 1}
    if not deciding:
        raise DataError("calibration: no language has both answered and unanswered questions.")
    upper, lower = choose(deciding, aims.costs, aims.least_precision, aims.seed)
    floor = strip_floor(strips, aims.strips_kept)
    traded = trade_offs(deciding, aims.costs, aims.least_precision, aims.seed)
    figures = _summary(deciding, upper, lower, aims) | _traded(traded)
    for language, found in outcomes.items():
        measured = action_figures(found, upper, lower) | _strip_figures(strips[language], floor)
        figures |= {f"{language}_{name}": value for name, value in measured.items()}
    thresholds = Thresholds(
        upper=upper,
        lower=lower,
        strip_floor=floor,
        evaluator="",
        questions=len(questions),
        figures={name: round(value, 4) for name, value in figures.items()},
    )
    return Calibration(thresholds, outcomes, strips, traded)


def strip_floor(strips: Mapping[str, Strips], kept: float) -> float:
    """The highest floor at or above which `kept` of the answering strips lie, in each language."""
    found = [
        float(np.quantile(each.answering, 1 - kept, method="lower"))
        for each in strips.values()
        if each.answering.size
    ]
    return float(np.floor(min(found) * 1e6) / 1e6)


def store(thresholds: Thresholds, folder: Path) -> Path:
    """Write thresholds.json into the weights folder, bound to its tensors by their digest."""
    bound = thresholds.model_copy(update={"evaluator": weights_digest(folder)})
    path = folder / THRESHOLDS_FILE
    path.write_text(bound.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return path


def _summary(outcomes: Outcomes, upper: float, lower: float, aims: Aims) -> dict[str, float]:
    low, high = accuracy_interval(outcomes, upper, lower, aims.seed)
    return {
        "accuracy_low": low,
        "accuracy_high": high,
        "accuracy_unseen": accuracy_unseen(outcomes, aims.costs, aims.least_precision, aims.seed),
        "least_correct_precision": aims.least_precision[0],
        "least_incorrect_precision": aims.least_precision[1],
        "strip_floor_keeps": aims.strips_kept,
        **{f"{name}_cost": value for name, value in asdict(aims.costs).items()},
    }


def _traded(rows: Sequence[TradeOff]) -> dict[str, float]:
    return {
        f"at_cost_{row.ambiguous_cost:g}_{name}": row.figures[name]
        for row in rows
        for name in ("accuracy", "ambiguous_share", "correct_precision", "incorrect_precision")
    }


def _strip_figures(strips: Strips, floor: float) -> dict[str, float]:
    """Shares: answering strips kept, others dropped; what has no strips is left out."""
    found = {}
    if strips.answering.size:
        found["strips_kept"] = float((strips.answering >= floor).mean())
    if strips.others.size:
        found["other_strips_dropped"] = float((strips.others < floor).mean())
    return found


def _scored(
    questions: Sequence[LabelledQuestion], score: Score
) -> tuple[dict[str, Graded], dict[str, Strips]]:
    pairs = [(q.question, text) for q in questions for text in _texts(q)]
    scores = iter(score(pairs))
    best: dict[str, _Rows] = defaultdict(list)
    passages: dict[str, _Rows] = defaultdict(list)
    strips: dict[str, _Rows] = defaultdict(list)
    for q in questions:
        found = [(next(scores), label) for label in q.labels]
        best[q.language].append((max(score for score, _ in found), q.answered))
        passages[q.language] += found
        strips[q.language] += [(next(scores), True) for _ in q.strips]
        strips[q.language] += [(next(scores), False) for _ in q.other_strips]
    for language, found in passages.items():
        # Without strips the passages stand for them: a short passage is one strip.
        if not any(answers for _, answers in strips[language]):
            strips[language] = found
    outcomes = {language: Graded(*_columns(rows)) for language, rows in best.items()}
    return outcomes, {language: _strips(strips[language]) for language in best}


def _texts(question: LabelledQuestion) -> list[str]:
    return [*question.passages, *question.strips, *question.other_strips]


def _columns(rows: _Rows) -> tuple[Floats, Bools]:
    scores, flags = zip(*rows, strict=True) if rows else ((), ())
    return np.array(scores, dtype=float), np.array(flags, dtype=bool)


def _strips(rows: _Rows) -> Strips:
    scores, answering = _columns(rows)
    return Strips(scores[answering], scores[~answering])
