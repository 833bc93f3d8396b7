"""Thresholds: upper, lower and strip floor of one checkpoint from labelled questions, and a report.

The action of a question follows from its best passage's score: Correct at or above upper,
Incorrect below lower, else Ambiguous (CRAG 4.3). Both languages share the pair that costs least.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evaluator.data.calibration_questions import LabelledQuestion
from evaluator.errors import DataError
from evaluator.model.checkpoint import THRESHOLDS_FILE, weights_digest
from evaluator.schema import CalibratedThresholds

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Score = Callable[[Sequence[tuple[str, str]]], list[float]]
Grade = Callable[[LabelledQuestion], list[float]]
"""Grades of a question's passages, in order."""
_Rows = list[tuple[float, bool]]  # scores, and whether each answers

AMBIGUOUS_COSTS = (0.05, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5)
DRAWS, MAX_CUTS = 200, 3000
MIN_QUESTIONS, MIN_DROPPED = 100, 0.3
_SHARES = (
    ("accuracy", "accuracy, Ambiguous counted wrong"),
    ("ambiguous_share", "Ambiguous"),
    ("web_searches", "web searches (Ambiguous or Incorrect)"),
    ("needless_searches", "needless ones (a passage answers)"),
    ("strips_kept", "answering strips kept"),
    ("other_strips_dropped", "other strips dropped"),
)


@dataclass(frozen=True)
class GradedQuestions:
    """Of one language: best passage score, and whether a passage answers, of each question.

    Of strips the same: the score of each, and whether it answers. `weights` (mean 1) let all
    sources of a language count the same.
    """

    best: Floats
    answered: Bools
    weights: Floats = field(default_factory=lambda: np.ones(1))


Outcomes = Mapping[str, GradedQuestions]
"""By language."""


@dataclass(frozen=True)
class Aims:
    """What thresholds are chosen for; a right Correct or Incorrect costs nothing.

    Ambiguous pays where a wrong action is likelier than its cost; from half of the cost of a wrong
    action on it never pays, and both thresholds meet. The precision asked of Correct and of
    Incorrect holds in every language. `strips_kept` is the share of answering strips above the
    floor.
    """

    wrong_correct: float = 1.0
    wrong_incorrect: float = 1.0
    ambiguous: float = 0.45
    correct_precision: float = 0.0
    incorrect_precision: float = 0.0
    strips_kept: float = 0.95
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.wrong_correct, self.wrong_incorrect, self.ambiguous) <= 0:
            raise DataError("Costs must be above 0.")


@dataclass(frozen=True)
class TradeOff:
    """The best thresholds where Ambiguous costs so much; figures are means over languages."""

    ambiguous_cost: float
    upper: float
    lower: float
    figures: dict[str, float]


@dataclass(frozen=True)
class Calibration:
    """Thresholds, not yet bound to weights, and what they were found on, by language."""

    thresholds: CalibratedThresholds
    outcomes: Outcomes
    trade_offs: Sequence[TradeOff]


def calibrate(
    questions: Sequence[LabelledQuestion],
    score: Score,
    aims: Aims | None = None,
    grade: Grade | None = None,
) -> Calibration:
    """Thresholds for the scorer. DataError where no language has both kinds of question.

    A language whose questions are all answered, or none, is measured but decides nothing. `grade`
    grades passages among each other; without it each has its score.
    """
    aims = aims or Aims()
    outcomes, strips = _scored(questions, score, grade or _each_alone(questions, score))
    deciding = {name: own for name, own in outcomes.items() if 0 < own.answered.mean() < 1}
    if not deciding:
        raise DataError("calibration: no language has both answered and unanswered questions.")
    upper, lower = choose(deciding, aims)
    floor = strip_floor(strips, aims.strips_kept)
    figures = _summary(deciding, upper, lower, aims)
    for language, graded in outcomes.items():
        measured = action_figures(graded, upper, lower) | _strip_figures(strips[language], floor)
        figures |= {f"{language}_{name}": value for name, value in measured.items()}
    thresholds = CalibratedThresholds(
        upper=upper,
        lower=lower,
        strip_floor=floor,
        evaluator="",
        questions=len(questions),
        figures={name: round(value, 4) for name, value in figures.items()},
    )
    return Calibration(thresholds, outcomes, trade_offs(deciding, aims))


def store(thresholds: CalibratedThresholds, folder: Path) -> Path:
    """Write thresholds.json into the weights folder, bound to its tensors by their digest."""
    bound = thresholds.model_copy(update={"evaluator": weights_digest(folder)})
    path = folder / THRESHOLDS_FILE
    path.write_text(bound.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return path


def _each_alone(questions: Sequence[LabelledQuestion], score: Score) -> Grade:
    pairs = [(q.question, passage) for q in questions for passage in q.passages]
    scores = dict(zip(pairs, score(pairs), strict=True))
    return lambda q: [scores[q.question, passage] for passage in q.passages]


def _scored(
    questions: Sequence[LabelledQuestion], score: Score, grade: Grade
) -> tuple[Outcomes, Outcomes]:
    pairs = [(q.question, text) for q in questions for text in (*q.strips, *q.other_strips)]
    scores = iter(score(pairs))
    best: dict[str, _Rows] = defaultdict(list)
    sources: dict[str, list[str]] = defaultdict(list)
    passages: dict[str, _Rows] = defaultdict(list)
    strips: dict[str, _Rows] = defaultdict(list)
    for q in questions:
        rows = list(zip(grade(q), q.labels, strict=True))
        best[q.language].append((max(score for score, _ in rows), q.answered))
        sources[q.language].append(q.source)
        passages[q.language] += rows
        strips[q.language] += [(next(scores), True) for _ in q.strips]
        strips[q.language] += [(next(scores), False) for _ in q.other_strips]
    for language, rows in passages.items():
        # Without strips the passages stand for them: a short passage is one strip.
        if not any(answers for _, answers in strips[language]):
            strips[language] = rows
    return _in_columns(best, sources), _in_columns(strips, {})


def _in_columns(rows_of: Mapping[str, _Rows], sources: Mapping[str, Sequence[str]]) -> Outcomes:
    outcomes = {}
    for language, rows in rows_of.items():
        scores, flags = zip(*rows, strict=True)
        weights = _evened(sources.get(language, [""] * len(rows)))
        outcomes[language] = GradedQuestions(
            np.array(scores, dtype=float), np.array(flags), weights
        )
    return outcomes


def _evened(sources: Sequence[str]) -> Floats:
    counts = Counter(sources)
    return np.array([len(sources) / (counts[source] * len(counts)) for source in sources])


def strip_floor(strips: Outcomes, recall: float) -> float:
    """The highest floor that leaves this share of the answering strips, in each language."""
    floors = [
        float(np.quantile(own.best[own.answered], 1 - recall, method="lower"))
        for own in strips.values()
        if own.answered.any()
    ]
    return float(np.floor(min(floors) * 1e6) / 1e6)


def _strip_figures(strips: GradedQuestions, floor: float) -> dict[str, float]:
    """Shares: answering strips kept, others dropped; what has no strips is left out."""
    above, answering = strips.best >= floor, strips.answered
    shares = {"strips_kept": above[answering], "other_strips_dropped": ~above[~answering]}
    return {name: _mean(share) for name, share in shares.items() if share.size}


def action_figures(graded: GradedQuestions, upper: float, lower: float) -> dict[str, float]:
    """Precision and recall of Correct and Incorrect, shares of Ambiguous and of web searches.

    Accuracy counts Correct on answered and Incorrect on unanswered questions as right, and
    Ambiguous as wrong. A search is needless where a passage answers. Shares are of all
    questions; a precision without cases is 0.
    """
    best, answered = graded.best, graded.answered
    correct, incorrect = best >= upper, best < lower
    ambiguous = ~correct & ~incorrect
    return {
        "questions": float(best.size),
        "correct_precision": _mean(answered[correct]),
        "correct_recall": _mean(correct[answered]),
        "incorrect_precision": _mean(~answered[incorrect]),
        "incorrect_recall": _mean(incorrect[~answered]),
        "ambiguous_share": _mean(ambiguous),
        "ambiguous_answered": _mean(answered[ambiguous]),
        "accuracy": _mean(_right(graded, upper, lower)),
        "web_searches": _mean(~correct),
        "needless_searches": _mean(~correct & answered),
    }


def choose(outcomes: Outcomes, aims: Aims) -> tuple[float, float]:
    """Upper and lower, rounded to 1e-6: the mean of the sweep's optima over bootstrap draws.

    The mean varies half as much as one optimum from one set of questions to the next. Where a
    precision is asked for, the one optimum is taken, for the mean need not keep to it.
    """
    asks_precision = aims.correct_precision or aims.incorrect_precision
    uppers, lowers = sweep(outcomes, aims, None if asks_precision else _drawn(outcomes, aims.seed))
    return round(float(uppers.mean()), 6), round(float(lowers.mean()), 6)


def trade_offs(outcomes: Outcomes, aims: Aims) -> list[TradeOff]:
    """The chosen thresholds for dearer and dearer Ambiguous, from much of it to none."""
    rows = []
    for cost in AMBIGUOUS_COSTS:
        upper, lower = choose(outcomes, replace(aims, ambiguous=cost))
        of_each = [action_figures(graded, upper, lower) for graded in outcomes.values()]
        means = {name: float(np.mean([own[name] for own in of_each])) for name in of_each[0]}
        rows.append(TradeOff(cost, upper, lower, means))
    return rows


def sweep(
    outcomes: Outcomes, aims: Aims, weights: Mapping[str, Floats] | None = None
) -> tuple[Floats, Floats]:
    """Upper and lower of least mean cost over the languages; arrays of one entry a draw.

    All pairs of cuts between neighbouring scores are compared; where nothing reaches a precision
    asked for, the action never occurs. `weights` (draws, questions) by language counts questions
    several times or not at all.
    """
    values = np.unique(np.concatenate([graded.best for graded in outcomes.values()]))
    if values.size > MAX_CUTS:
        values = np.quantile(values, np.linspace(0, 1, MAX_CUTS))
    # Between all neighbouring scores, and one beyond each end.
    cuts = np.concatenate([[values[0]], (values[:-1] + values[1:]) / 2, [values[-1] + 1e-3]])
    shape = (1 if weights is None else len(next(iter(weights.values()))), cuts.size)
    above, below = np.zeros(shape), np.zeros(shape)  # cost of upper, cost of lower
    for language, graded in outcomes.items():
        even = np.broadcast_to(graded.weights, (1, graded.best.size))
        counted = even if weights is None else weights[language]
        of_upper, of_lower = _costs_of_cuts(graded, cuts, counted, aims)
        above += of_upper
        below += of_lower
    # Ambiguous is what neither takes, so the costs of both add up; lower may not pass upper.
    cheapest = np.minimum.accumulate(below, axis=1)
    upper = np.argmin(above + cheapest, axis=1)
    reached = np.take_along_axis(cheapest, upper[:, None], axis=1)
    lower = np.argmax(below <= reached, axis=1)
    return cuts[upper], cuts[lower]


def _costs_of_cuts(
    graded: GradedQuestions, cuts: Floats, counted: Floats, aims: Aims
) -> tuple[Floats, Floats]:
    """What each cut costs as upper and as lower, beside Ambiguous: (draws, cuts) both."""
    order = np.argsort(graded.best)
    place = np.searchsorted(graded.best[order], cuts)  # questions below each cut
    weight = counted[:, order]
    answered = _summed(weight * graded.answered[order])
    everything = _summed(weight)
    total = everything[:, -1:]
    below, answered_below = everything[:, place], answered[:, place]
    above = total - below
    wrong_above = above - (answered[:, -1:] - answered_below)
    of_upper = (aims.wrong_correct * wrong_above - aims.ambiguous * above) / total
    of_lower = (aims.wrong_incorrect * answered_below - aims.ambiguous * below) / total
    of_upper[wrong_above > (1 - aims.correct_precision) * above + 1e-9] = np.inf
    of_lower[answered_below > (1 - aims.incorrect_precision) * below + 1e-9] = np.inf
    return of_upper, of_lower


def _summary(outcomes: Outcomes, upper: float, lower: float, aims: Aims) -> dict[str, float]:
    """Mean accuracy: its 95 % bootstrap interval, and on the questions a draw left out, at that
    draw's own optimum (somewhat worse than the mean that `choose` takes; each question counts
    once); then the aims."""
    weights = _drawn(outcomes, aims.seed)
    by_language = [
        weights[language] @ _right(graded, upper, lower) / weights[language].sum(axis=1)
        for language, graded in outcomes.items()
    ]
    low, high = np.quantile(np.mean(by_language, axis=0), (0.025, 0.975))
    optima = sweep(outcomes, aims, weights)
    unseen = [
        _right(graded, *optimum)[draw == 0].mean()
        for language, graded in outcomes.items()
        for draw, *optimum in zip(weights[language], *optima, strict=True)
        if (draw == 0).any()
    ]
    return {
        "accuracy_low": float(low),
        "accuracy_high": float(high),
        "accuracy_unseen": float(np.mean(unseen)) if unseen else 0.0,
        "least_correct_precision": aims.correct_precision,
        "least_incorrect_precision": aims.incorrect_precision,
        "strip_floor_keeps": aims.strips_kept,
        "wrong_correct_cost": aims.wrong_correct,
        "wrong_incorrect_cost": aims.wrong_incorrect,
        "ambiguous_cost": aims.ambiguous,
    }


def _drawn(outcomes: Outcomes, seed: int) -> dict[str, Floats]:
    """How often each question is drawn, (DRAWS, questions) by language, each class by itself."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for language, graded in outcomes.items():
        weights = np.zeros((DRAWS, graded.best.size))
        for members in (np.flatnonzero(graded.answered), np.flatnonzero(~graded.answered)):
            if members.size:
                even = np.full(members.size, 1 / members.size)
                weights[:, members] = rng.multinomial(members.size, even, size=DRAWS)
        drawn[language] = weights * graded.weights
    return drawn


def _right(graded: GradedQuestions, upper: float, lower: float) -> Bools:
    return np.where(graded.answered, graded.best >= upper, graded.best < lower)


def _summed(values: Floats) -> Floats:
    return np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)


def _mean(values: Bools) -> float:
    return float(values.mean()) if values.size else 0.0


def report(calibration: Calibration) -> str:
    """Figures by language, accuracy against the share of Ambiguous, what the strip floor does."""
    own = calibration.thresholds
    head = f"upper {own.upper:.4f}, lower {own.lower:.4f}, strip floor {own.strip_floor:.4f}"
    lines = [f"{head}, found on {own.questions} questions"]
    for language in sorted(calibration.outcomes):
        figures = own.figures
        lines += ["", f"{language}, {figures[f'{language}_questions']:.0f} questions"]
        for action in ("correct", "incorrect"):
            shares = (figures[f"{language}_{action}_{x}"] for x in ("precision", "recall"))
            lines.append("  {:10} precision {:.3f}, recall {:.3f}".format(action, *shares))
        named = [(words, figures.get(f"{language}_{name}")) for name, words in _SHARES]
        lines += [f"  {words}: {share:.3f}" for words, share in named if share is not None]
    return "\n".join([*lines, "", *_over_languages(calibration), *_warnings(calibration)])


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
