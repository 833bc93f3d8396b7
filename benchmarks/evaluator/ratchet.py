"""The figures that weights are compared by: flat, and each so that more is better.

    python -m benchmarks.evaluator.ratchet BEFORE.json NOW.json

prints what fell between two files of `python -m benchmarks.evaluator`. New weights replace others
only where nothing does.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


def held(figures: Figures) -> dict[str, float]:
    """The compared figures by name; parts that were not measured are absent."""
    return {name: round(value, 4) for name, value in _flat(figures)}


def fallen(before: dict[str, float], now: dict[str, float]) -> list[str]:
    """A line for each figure of `before` that is lower or absent now."""
    return [
        f"{name}: {value} -> {now.get(name, 'absent')}"
        for name, value in before.items()
        if now.get(name, -1.0) < value
    ]


def _flat(figures: Figures) -> Iterator[tuple[str, float]]:
    for part in ("tests", "validation"):
        for name, own in figures.get(part, {}).items():
            yield from (
                (f"{part} {name} {key}", own[f"{key}_evaluator"]) for key in ("auc", "first")
            )
    for language, kinds in figures.get("kinds", {}).items():
        yield from ((f"kinds {language} {kind}", 1 - own["above"]) for kind, own in kinds.items())
    yield from _acceptance(figures.get("acceptance", {}))
    for name, own in _dicts(figures.get("actions", {})):
        yield f"actions {name}", own["accuracy"]
        yield f"actions {name} not needless", 1 - own["needless_searches"]
    for language, parts in figures.get("judgements", {}).get("need", {}).items():
        yield from ((f"need {language} {name}", own["accuracy"]) for name, own in parts.items())
    yield from ((f"spans {name}", own["f1"]) for name, own in figures.get("spans", {}).items())
    for name, own in figures.get("manuals", {}).items():
        if "evaluator" in own:
            yield from (
                (f"manuals {name} {key}", own["evaluator"][key]) for key in ("first", "mrr")
            )
        if "auc" in own:
            yield f"manuals {name} auc", own["auc"]
        if "standing_auc" in own:
            yield f"manuals {name} standing auc", own["standing_auc"]


def _acceptance(acceptance: Figures) -> Iterator[tuple[str, float]]:
    for language, kinds in _dicts(acceptance):
        for kind, own in kinds.items():
            right = own["accepted"] if own["right"] else 1 - own["accepted"]
            yield f"acceptance {language} {kind}", right


def _dicts(figures: Figures) -> Iterator[tuple[str, Figures]]:
    return ((name, own) for name, own in figures.items() if isinstance(own, dict))


if __name__ == "__main__":
    one, other = (held(json.loads(Path(name).read_text("utf-8"))) for name in sys.argv[1:3])
    sys.stdout.write("\n".join(fallen(one, other)) + "\n")
