"""Two evaluations compared question by question; a baseline that a change must not fall behind."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.extensions.evaluation.measures import MEASURES
from app.extensions.evaluation.schemas import (
    ComparedAnswer,
    ComparedMeasure,
    ComparedQuestion,
    EvaluationComparison,
)
from app.extensions.evaluation.statistics import paired_difference, rounded

Results = Mapping[str, Any]
Cell = Mapping[str, Any]
_NOTHING = dict.fromkeys(ComparedAnswer.model_fields)


def compare(before: Results, after: Results) -> EvaluationComparison:
    """Of `results_of`, the older one first. What became wrong stands before what became right."""
    old = {row["id"]: row for row in before["rows"]}
    rows = [(old[row["id"]], row) for row in after["rows"] if row["id"] in old]
    known = {each["name"] for each in before["variants"]}
    shared = [each["name"] for each in after["variants"] if each["name"] in known]
    measures, changed = list[ComparedMeasure](), list[ComparedQuestion]()
    for name in shared:
        pairs = [(one["variants"][name], other["variants"][name]) for one, other in rows]
        measures += [
            difference
            for measure in MEASURES
            if (difference := _difference(name, measure, pairs, after["seed"]))
        ]
        for (_, row), pair in zip(rows, pairs, strict=True):
            was, now = (ComparedAnswer.model_validate(_NOTHING | cell) for cell in pair)
            if was != now:
                shown = {"id": row["id"], "question": row["question"], "variant": name}
                changed.append(ComparedQuestion(**shown, before=was, after=now))
    changed.sort(key=lambda it: int(it.after.right is True) if it.has_turned else 2)
    return EvaluationComparison(
        questions=len(rows), variants=shared, measures=measures, changed=changed
    )


def _difference(
    variant: str, measure: str, pairs: Sequence[tuple[Cell, Cell]], seed: int
) -> ComparedMeasure | None:
    values = [[cell.get("measures", {}).get(measure) for cell in pair] for pair in pairs]
    known = [(was, now) for was, now in values if was is not None and now is not None]
    if not known:
        return None
    before, after = zip(*known, strict=True)
    estimate, it = paired_difference(after, before, seed), MEASURES[measure]
    low, high, turned = estimate.low, estimate.high, None
    if it.better and low is not None and high is not None and not low <= 0 <= high:
        turned = "better" if (low > 0) == (it.better == "higher") else "worse"
    return ComparedMeasure(
        variant=variant,
        measure=measure,
        title=it.title,
        group=it.group,
        before=rounded(sum(before) / len(before)) or 0.0,
        after=rounded(sum(after) / len(after)) or 0.0,
        difference=estimate.mean or 0.0,
        low=low,
        high=high,
        n=estimate.n,
        turned=turned,
    )
