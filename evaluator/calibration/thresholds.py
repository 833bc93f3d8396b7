"""Thresholds: upper, lower and strip floor of one checkpoint from labelled questions, and a report.

Upper and lower are the pair that costs least (`action_costs`), the same for both languages; the
strip floor is the highest one that keeps nearly all strips that answer.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from evaluator.calibration import action_costs
from evaluator.calibration.action_costs import Costs, Floats, GradedQuestions, Outcomes, TradeOff
from evaluator.data.calibration_questions import LabelledQuestion, check_both_kinds
from evaluator.errors import DataError
from evaluator.model.checkpoint import THRESHOLDS_FILE, weights_digest
from evaluator.schema import CalibratedThresholds

Score = Callable[[Sequence[tuple[str, str]]], list[float]]
_Rows = list[tuple[float, bool]]  # scores, and whether each answers

STRIPS_KEPT = 0.95

_ACTIONS = ("correct", "incorrect")
_SHARES = (
    ("accuracy", "accuracy, Ambiguous counted wrong"),
    ("ambiguous_share", "Ambiguous"),
    ("web_searches", "web searches (Ambiguous or Incorrect)"),
    ("needless_searches", "needless ones (a passage answers)"),
    ("strips_kept", "answering strips kept"),
    ("other_strips_dropped", "other strips dropped"),
)
MIN_QUESTIONS, MIN_DROPPED = 100, 0.3


@dataclass(frozen=True)
class Strips:
    """The scores of one language's strips, those that answer and those that do not."""

    answering: Floats
    others: Floats


@dataclass(frozen=True)
class Calibration:
    """Thresholds, not yet bound to weights, and what they were found on, by language."""

    thresholds: CalibratedThresholds
    outcomes: Outcomes
    strips: Mapping[str, Strips]
    trade_offs: Sequence[TradeOff]


@dataclass(frozen=True)
class Aims:
    """What thresholds are chosen for.

    `min_precision` of Correct and Incorrect holds in every language; 0 asks for none.
    `strips_kept` is the share of answering strips at or above the floor.
    """

    costs: Costs = field(default_factory=Costs)
    min_precision: action_costs.MinPrecision = action_costs.ANY
    strips_kept: float = STRIPS_KEPT
    seed: int = 1


def calibrate(
    questions: Sequence[LabelledQuestion], score: Score, aims: Aims | None = None
) -> Calibration:
    """Thresholds for the scorer. DataError where no language has both kinds of question.

    A language whose questions are all answered, or none, is measured but decides nothing.
    """
    aims = aims or Aims()
    check_both_kinds(questions, "calibration")
    outcomes, strips = _scored(questions, score)
    deciding = {name: own for name, own in outcomes.items() if 0 < own.answered.mean() < 1}
    if not deciding:
        raise DataError("calibration: no language has both answered and unanswered questions.")
    upper, lower = action_costs.choose(deciding, aims.costs, aims.min_precision, aims.seed)
    floor = strip_floor(strips, aims.strips_kept)
    traded = action_costs.trade_offs(deciding, aims.costs, aims.min_precision, aims.seed)
    figures = _summary(deciding, upper, lower, aims) | _traded(traded)
    for language, graded in outcomes.items():
        measured = action_costs.action_figures(graded, upper, lower)
        measured |= _strip_figures(strips[language], floor)
        figures |= {f"{language}_{name}": value for name, value in measured.items()}
    thresholds = CalibratedThresholds(
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
    floors = [
        float(np.quantile(own.answering, 1 - kept, method="lower"))
        for own in strips.values()
        if own.answering.size
    ]
    return float(np.floor(min(floors) * 1e6) / 1e6)


def store(thresholds: CalibratedThresholds, folder: Path) -> Path:
    """Write thresholds.json into the weights folder, bound to its tensors by their digest."""
    bound = thresholds.model_copy(update={"evaluator": weights_digest(folder)})
    path = folder / THRESHOLDS_FILE
    path.write_text(bound.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return path


def _summary(outcomes: Outcomes, upper: float, lower: float, aims: Aims) -> dict[str, float]:
    low, high = action_costs.accuracy_interval(outcomes, upper, lower, aims.seed)
    unseen = action_costs.accuracy_unseen(outcomes, aims.costs, aims.min_precision, aims.seed)
    return {
        "accuracy_low": low,
        "accuracy_high": high,
        "accuracy_unseen": unseen,
        "least_correct_precision": aims.min_precision[0],
        "least_incorrect_precision": aims.min_precision[1],
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
    figures = {}
    if strips.answering.size:
        figures["strips_kept"] = float((strips.answering >= floor).mean())
    if strips.others.size:
        figures["other_strips_dropped"] = float((strips.others < floor).mean())
    return figures


def _scored(
    questions: Sequence[LabelledQuestion], score: Score
) -> tuple[dict[str, GradedQuestions], dict[str, Strips]]:
    pairs = [(q.question, text) for q in questions for text in _texts(q)]
    scores = iter(score(pairs))
    best: dict[str, _Rows] = defaultdict(list)
    passages: dict[str, _Rows] = defaultdict(list)
    strips: dict[str, _Rows] = defaultdict(list)
    for q in questions:
        rows = [(next(scores), label) for label in q.labels]
        best[q.language].append((max(score for score, _ in rows), q.answered))
        passages[q.language] += rows
        strips[q.language] += [(next(scores), True) for _ in q.strips]
        strips[q.language] += [(next(scores), False) for _ in q.other_strips]
    for language, rows in passages.items():
        # Without strips the passages stand for them: a short passage is one strip.
        if not any(answers for _, answers in strips[language]):
            strips[language] = rows
    outcomes = {language: GradedQuestions(*_columns(rows)) for language, rows in best.items()}
    return outcomes, {language: _strips(strips[language]) for language in best}


def _texts(question: LabelledQuestion) -> list[str]:
    return [*question.passages, *question.strips, *question.other_strips]


def _columns(rows: _Rows) -> tuple[Floats, action_costs.Bools]:
    scores, flags = zip(*rows, strict=True) if rows else ((), ())
    return np.array(scores, dtype=float), np.array(flags, dtype=bool)


def _strips(rows: _Rows) -> Strips:
    scores, answering = _columns(rows)
    return Strips(scores[answering], scores[~answering])


def report(calibration: Calibration) -> str:
    """Figures by language, accuracy against the share of Ambiguous, what the strip floor does."""
    own = calibration.thresholds
    head = f"upper {own.upper:.4f}, lower {own.lower:.4f}, strip floor {own.strip_floor:.4f}"
    lines = [f"{head}, found on {own.questions} questions"]
    for language in sorted(calibration.outcomes):
        lines += ["", *_language(own.figures, language)]
    return "\n".join([*lines, "", *_over_languages(calibration), *_warnings(calibration)])


def _language(figures: dict[str, float], language: str) -> list[str]:
    lines = [f"{language}, {figures[f'{language}_questions']:.0f} questions"]
    for action in _ACTIONS:
        precision, recall = (figures[f"{language}_{action}_{x}"] for x in ("precision", "recall"))
        lines.append(f"  {action:10} precision {precision:.3f}, recall {recall:.3f}")
    shares = [(words, figures.get(f"{language}_{name}")) for name, words in _SHARES]
    return lines + [f"  {words}: {share:.3f}" for words, share in shares if share is not None]


def _over_languages(calibration: Calibration) -> list[str]:
    figures = calibration.thresholds.figures
    lines = [
        f"means over the languages: accuracy 95 % within {figures['accuracy_low']:.3f} and "
        f"{figures['accuracy_high']:.3f}; on questions left out {figures['accuracy_unseen']:.3f}",
        f"by the cost of Ambiguous; chosen {figures['ambiguous_cost']:g}, where a wrong Correct "
        f"costs {figures['wrong_correct_cost']:g}, a wrong Incorrect "
        f"{figures['wrong_incorrect_cost']:g}",
        "  cost    upper    lower  accuracy  Ambiguous   prec. Correct Incorrect needless searches",
    ]
    for row in calibration.trade_offs:
        f = row.figures
        lines.append(
            f"  {row.ambiguous_cost:.2f} {row.upper:8.4f} {row.lower:8.4f} {f['accuracy']:9.3f} "
            f"{f['ambiguous_share']:10.3f} {f['correct_precision']:14.3f} "
            f"{f['incorrect_precision']:10.3f} {f['needless_searches']:18.3f}"
        )
    return lines


def _warnings(calibration: Calibration) -> list[str]:
    """What a reader of the figures should know before trusting them."""
    figures = calibration.thresholds.figures
    lines = []
    for language, graded in sorted(calibration.outcomes.items()):
        if graded.answered.all() or not graded.answered.any():
            lines.append(f"{language} has one kind of question only and decided nothing")
        elif graded.best.size < MIN_QUESTIONS:
            lines.append(
                f"{language} has fewer than {MIN_QUESTIONS} questions: expect other figures anew"
            )
        dropped = figures.get(f"{language}_other_strips_dropped")
        if dropped is not None and dropped < MIN_DROPPED:
            lines.append(f"{language}: the strip floor drops little ({dropped:.3f} of the others)")
    return [f"note: {line}" for line in lines]
