"""Action costs: figures of two thresholds on labelled questions, and the pair that costs least.

The action of a question follows from its best passage's score: Correct at or above upper,
Incorrect below lower, else Ambiguous (CRAG 4.3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evaluator.errors import DataError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class GradedQuestions:
    """The questions of one language: best passage score, and whether a passage answers, each."""

    best: Floats
    answered: Bools


Outcomes = Mapping[str, GradedQuestions]
"""By language."""


@dataclass(frozen=True)
class Costs:
    """What each outcome of a question costs; a right Correct or Incorrect costs nothing.

    Ambiguous still answers, but searches the web and mixes in what it finds, needed or not: it
    pays where a wrong action is likelier than its cost. From half of the cost of a wrong action
    on it never pays, both thresholds meet and accuracy is highest; somewhat below, only what is
    nearly even stays Ambiguous.
    """

    wrong_correct: float = 1.0
    wrong_incorrect: float = 1.0
    ambiguous: float = 0.45

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


MinPrecision = tuple[float, float]
"""The precision asked of Correct and of Incorrect."""
ANY: MinPrecision = (0.0, 0.0)

AMBIGUOUS_COSTS = (0.05, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5)
DRAWS, MAX_CUTS = 200, 3000


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


def mean_figures(outcomes: Outcomes, upper: float, lower: float) -> dict[str, float]:
    """The figures' means over the languages, each counting the same."""
    by_language = [action_figures(graded, upper, lower) for graded in outcomes.values()]
    return {
        name: float(np.mean([figures[name] for figures in by_language])) for name in by_language[0]
    }


def sweep(
    outcomes: Outcomes,
    costs: Costs,
    min_precision: MinPrecision = ANY,
    weights: Mapping[str, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Upper and lower of least mean cost over the languages; arrays of one entry a draw.

    All pairs of cuts between neighbouring scores are compared. `min_precision` is asked of
    Correct and Incorrect in every language; where nothing reaches it, the action never occurs.
    `weights` (draws, questions) by language counts questions several times or not at all.
    """
    cuts = _cuts(np.concatenate([graded.best for graded in outcomes.values()]))
    shape = (1 if weights is None else len(next(iter(weights.values()))), cuts.size)
    above, below = np.zeros(shape), np.zeros(shape)  # cost of upper, cost of lower
    for language, graded in outcomes.items():
        counted = np.ones((1, graded.best.size)) if weights is None else weights[language]
        of_upper, of_lower = _costs_of_cuts(graded, cuts, counted, costs, min_precision)
        above += of_upper
        below += of_lower
    # Ambiguous is what neither takes, so the costs of both add up; lower may not pass upper.
    cheapest = np.minimum.accumulate(below, axis=1)
    upper = np.argmin(above + cheapest, axis=1)
    reached = np.take_along_axis(cheapest, upper[:, None], axis=1)
    lower = np.argmax(below <= reached, axis=1)
    return cuts[upper], cuts[lower]


def choose(
    outcomes: Outcomes, costs: Costs, min_precision: MinPrecision = ANY, seed: int = 1
) -> tuple[float, float]:
    """Upper and lower, rounded to 1e-6: the mean of the sweep's optima over bootstrap draws.

    An optimum hangs on the few questions beside it; the mean varies about half as much from one
    set of questions to the next. Where a precision is asked for, the one optimum over all
    questions is taken, for the mean need not keep to it.
    """
    weights = None if any(min_precision) else bootstrap_weights(outcomes, DRAWS, seed)
    uppers, lowers = sweep(outcomes, costs, min_precision, weights)
    return round(float(uppers.mean()), 6), round(float(lowers.mean()), 6)


def trade_offs(
    outcomes: Outcomes, costs: Costs, min_precision: MinPrecision = ANY, seed: int = 1
) -> list[TradeOff]:
    """The chosen thresholds for dearer and dearer Ambiguous, from much of it to none."""
    rows = []
    for cost in AMBIGUOUS_COSTS:
        upper, lower = choose(outcomes, replace(costs, ambiguous=cost), min_precision, seed)
        rows.append(TradeOff(cost, upper, lower, mean_figures(outcomes, upper, lower)))
    return rows


def accuracy_interval(
    outcomes: Outcomes, upper: float, lower: float, seed: int = 1
) -> tuple[float, float]:
    """95 % bootstrap interval of the languages' mean accuracy at these thresholds."""
    weights = bootstrap_weights(outcomes, DRAWS, seed)
    by_language = [
        weights[language] @ _right(graded, upper, lower) / graded.best.size
        for language, graded in outcomes.items()
    ]
    low, high = np.quantile(np.mean(by_language, axis=0), (0.025, 0.975))
    return float(low), float(high)


def accuracy_unseen(
    outcomes: Outcomes, costs: Costs, min_precision: MinPrecision = ANY, seed: int = 1
) -> float:
    """Mean accuracy on the questions a bootstrap draw left out, at that draw's own optimum.

    Careful: single optima are somewhat worse than the mean that `choose` takes.
    """
    weights = bootstrap_weights(outcomes, DRAWS, seed)
    uppers, lowers = sweep(outcomes, costs, min_precision, weights)
    accuracies = [
        right[left_out].mean()
        for language, graded in outcomes.items()
        for draw, upper, lower in zip(weights[language], uppers, lowers, strict=True)
        if (left_out := draw == 0).any()
        for right in (_right(graded, upper, lower),)
    ]
    return float(np.mean(accuracies)) if accuracies else 0.0


def bootstrap_weights(outcomes: Outcomes, draws: int, seed: int) -> dict[str, Floats]:
    """How often each question is drawn, (draws, questions) by language, each class by itself."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for language, graded in outcomes.items():
        weights = np.zeros((draws, graded.best.size))
        for members in (np.flatnonzero(graded.answered), np.flatnonzero(~graded.answered)):
            if members.size:
                even = np.full(members.size, 1 / members.size)
                weights[:, members] = rng.multinomial(members.size, even, size=draws)
        drawn[language] = weights
    return drawn


def _cuts(scores: Floats) -> Floats:
    """Between all neighbouring scores, and one beyond each end."""
    values = np.unique(scores)
    if values.size > MAX_CUTS:
        values = np.quantile(values, np.linspace(0, 1, MAX_CUTS))
    return np.concatenate([[values[0]], (values[:-1] + values[1:]) / 2, [values[-1] + 1e-3]])


def _costs_of_cuts(
    graded: GradedQuestions,
    cuts: Floats,
    counted: Floats,
    costs: Costs,
    min_precision: MinPrecision,
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
    of_upper = (costs.wrong_correct * wrong_above - costs.ambiguous * above) / total
    of_lower = (costs.wrong_incorrect * answered_below - costs.ambiguous * below) / total
    of_correct, of_incorrect = min_precision
    of_upper[wrong_above > (1 - of_correct) * above + 1e-9] = np.inf
    of_lower[answered_below > (1 - of_incorrect) * below + 1e-9] = np.inf
    return of_upper, of_lower


def _right(graded: GradedQuestions, upper: float, lower: float) -> Bools:
    return np.where(graded.answered, graded.best >= upper, graded.best < lower)


def _summed(values: Floats) -> Floats:
    return np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)


def _mean(values: Bools) -> float:
    return float(values.mean()) if values.size else 0.0
