"""Two evaluations compared question by question; a baseline that a change must not fall behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.evaluation.measures import MEASURES
from app.evaluation.statistics import Estimate, paired_difference, rounded

Results = Mapping[str, Any]
Cell = Mapping[str, Any]
Turn = Literal["better", "worse"]
TOLD = ("answer", "action", "verdict", "right", "lost_at", "failure")
"""What of an answer may change."""


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """A measure of one variant, over the questions that both evaluations know it of.

    `turned` says which way, where the interval of paired differences excludes zero.
    """

    variant: str
    measure: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    n: int
    turned: Turn | None

    @property
    def title(self) -> str:
        return MEASURES[self.measure].title

    @property
    def group(self) -> str:
        return MEASURES[self.measure].group

    @property
    def is_regression(self) -> bool:
        """Costs are reported, but are no regression."""
        return self.turned == "worse" and self.group != "cost"


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """A question whose answer is another one under a variant, or came about otherwise."""

    id: str
    question: str
    variant: str
    before: Cell
    after: Cell

    @property
    def has_turned(self) -> bool:
        """Right before and wrong now, or the other way round."""
        return self.before["right"] is not self.after["right"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs, over the questions and variants that both evaluations have."""

    questions: int
    variants: tuple[str, ...]
    measures: tuple[MeasureDifference, ...]
    changed: tuple[ChangedAnswer, ...]

    @property
    def regressions(self) -> list[MeasureDifference]:
        return [each for each in self.measures if each.is_regression]

    @property
    def turned(self) -> list[ChangedAnswer]:
        return [each for each in self.changed if each.has_turned]


def compare(before: Results, after: Results) -> Comparison:
    """Of `results_of`, the older one first. What became wrong stands before what became right."""
    old = {row["id"]: row for row in before["rows"]}
    rows = [(old[row["id"]], row) for row in after["rows"] if row["id"] in old]
    known = {each["name"] for each in before["variants"]}
    shared = [each["name"] for each in after["variants"] if each["name"] in known]
    measures, changed = list[MeasureDifference](), list[ChangedAnswer]()
    for name in shared:
        pairs = [(one["variants"][name], other["variants"][name]) for one, other in rows]
        measures += [
            difference
            for measure in MEASURES
            if (difference := _difference(name, measure, pairs, after["seed"]))
        ]
        for (_, row), pair in zip(rows, pairs, strict=True):
            was, is_now = ({key: cell.get(key) for key in TOLD} for cell in pair)
            if was != is_now:
                changed.append(ChangedAnswer(row["id"], row["question"], name, was, is_now))
    changed.sort(key=_weight)
    return Comparison(len(rows), tuple(shared), tuple(measures), tuple(changed))


def _difference(
    variant: str, measure: str, pairs: Sequence[tuple[Cell, Cell]], seed: int
) -> MeasureDifference | None:
    values = [[cell.get("measures", {}).get(measure) for cell in pair] for pair in pairs]
    known = [(was, is_now) for was, is_now in values if was is not None and is_now is not None]
    if not known:
        return None
    before, after = ([pair[n] for pair in known] for n in (0, 1))
    estimate = paired_difference(after, before, seed)
    return MeasureDifference(
        variant=variant,
        measure=measure,
        before=_mean(before),
        after=_mean(after),
        difference=estimate.mean or 0.0,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        turned=_turned(measure, estimate),
    )


def _mean(values: Sequence[float]) -> float:
    return rounded(sum(values) / len(values)) or 0.0


def _turned(measure: str, estimate: Estimate) -> Turn | None:
    better = MEASURES[measure].better
    if better is None or estimate.low is None or estimate.high is None:
        return None
    if estimate.low <= 0 <= estimate.high:
        return None
    return "better" if (estimate.low > 0) == (better == "higher") else "worse"


def _weight(changed: ChangedAnswer) -> int:
    if not changed.has_turned:
        return 2
    return int(changed.after["right"] is True)
