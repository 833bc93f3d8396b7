"""Two evaluations compared question by question; a baseline that a change must not fall behind."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.evaluation.measures import MEASURES
from app.evaluation.statistics import paired_difference

Results = Mapping[str, Any]
COMPARED = [
    name for name, measure in MEASURES.items() if measure.better and measure.group != "cost"
]


@dataclass(frozen=True, slots=True)
class Regression:
    """A measure that has become worse: its interval of paired differences excludes zero."""

    variant: str
    measure: str
    before: float
    after: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Changed:
    """A question whose answer has become right or wrong under a variant."""

    question: str
    variant: str
    before: bool | None
    after: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs, over the questions and variants that both evaluations have."""

    questions: int
    variants: tuple[str, ...]
    differences: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    changed: tuple[Changed, ...]
    regressions: tuple[Regression, ...]


def compare(before: Results, after: Results) -> Comparison:
    """Of `results_of`, the older one first."""
    old = {row["id"]: row for row in before["rows"]}
    rows = [(old[row["id"]], row) for row in after["rows"] if row["id"] in old]
    names = [each["name"] for each in after["variants"]]
    shared = [name for name in names if any(name == each["name"] for each in before["variants"])]
    differences: dict[str, dict[str, dict[str, float | None]]] = {}
    regressions, changed = list[Regression](), list[Changed]()
    for name in shared:
        pairs = [(one["variants"][name], other["variants"][name]) for one, other in rows]
        differences[name] = {}
        for measure in MEASURES:
            values = [[cell.get("measures", {}).get(measure) for cell in pair] for pair in pairs]
            was, is_now = ([value[n] for value in values] for n in (0, 1))
            found = paired_difference(is_now, was, after["seed"])
            if found.mean is None:
                continue
            differences[name][measure] = asdict(found)
            if measure in COMPARED and (worse := _worse(name, measure, was, is_now, found)):
                regressions.append(worse)
        changed += [
            Changed(row["id"], name, one.get("right"), other.get("right"))
            for (row, _), (one, other) in zip(rows, pairs, strict=True)
            if one.get("right") != other.get("right")
        ]
    return Comparison(len(rows), tuple(shared), differences, tuple(changed), tuple(regressions))


def _worse(name: str, measure: str, was: Any, is_now: Any, found: Any) -> Regression | None:
    if found.low is None or found.high is None:
        return None
    is_worse = found.high < 0 if MEASURES[measure].better == "higher" else found.low > 0
    if not is_worse:
        return None
    both = [(a, b) for a, b in zip(was, is_now, strict=True) if a is not None and b is not None]
    before, after = (round(sum(pair[n] for pair in both) / len(both), 4) for n in (0, 1))
    return Regression(name, measure, before, after, found.low, found.high)
