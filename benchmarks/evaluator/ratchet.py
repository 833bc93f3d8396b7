"""The figures that weights are compared by: flat, each so that more is better.

    python -m benchmarks.evaluator.ratchet BEFORE.json NOW.json

prints what is lower between two files of `python -m benchmarks.evaluator`. The changelog tells
of new weights what is. Of each lower figure the rows that both files hold are compared one by
one (an AUC by each question's own share): a one-sided sign test tells whether it is noise.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binomtest  # type: ignore[import-untyped]

from benchmarks.report import Figures

ALPHA = 0.05
"""Of each figure on its own: of a hundred that are equal, five would be said to fall."""


@dataclass(frozen=True)
class Change:
    """A figure before and now, the rows that gained and lost, and the chance of so many losses.

    0 where the rows of one side are not known.
    """

    name: str
    before: float
    now: float
    gained: int = 0
    lost: int = 0
    chance: float = 0.0

    @property
    def fell(self) -> bool:
        """Whether it is lower by more than chance."""
        return self.now < self.before and self.chance < ALPHA


def digits(values: Iterable[float]) -> str:
    """Outcomes of rows, 0…1 each, as one digit each."""
    return "".join(str(round(9 * value)) for value in values)


def held(figures: Figures) -> dict[str, float]:
    """The compared figures by name; parts that were not measured are absent."""
    return {name: round(value, 4) for name, value, _ in _flat(figures)}


def outcomes(figures: Figures) -> dict[str, str]:
    """The outcomes of each compared figure's rows, where they were kept."""
    return {name: rows for name, _, rows in _flat(figures) if rows}


def kept(figures: Figures, digest: str) -> Figures:
    """What `figures.json` beside the weights of this digest holds."""
    return {"evaluator": digest, "held": held(figures), "outcomes": outcomes(figures)}


def changes(before: Figures, now: Figures) -> list[Change]:
    """Each compared figure that both have; both are of the form of `kept`."""
    old, new = before.get("outcomes", {}), now.get("outcomes", {})
    return [
        Change(name, value, now["held"][name], *sign_test(old.get(name), new.get(name)))
        for name, value in before["held"].items()
        if name in now["held"]
    ]


def fallen(before: dict[str, float], now: dict[str, float]) -> list[str]:
    """A line for each figure of `before` that is lower or absent now."""
    return [
        f"{name}: {value} -> {now.get(name, 'absent')}"
        for name, value in before.items()
        if now.get(name, -1.0) < value
    ]


def sign_test(before: str | None, now: str | None) -> tuple[int, int, float]:
    """Rows gained and lost, and the one-sided chance of as many losses among equal weights."""
    if not before or not now or len(before) != len(now):
        return 0, 0, 0.0
    gained = sum(new > old for old, new in zip(before, now, strict=True))
    lost = sum(new < old for old, new in zip(before, now, strict=True))
    if not gained + lost:
        return 0, 0, 1.0
    return gained, lost, float(binomtest(lost, gained + lost, alternative="greater").pvalue)


def _flat(figures: Figures) -> Iterator[tuple[str, float, str]]:
    """Name, value and the outcomes of its rows."""
    for part, own in figures.items():
        if part in _PARTS:
            yield from _PARTS[part](part, own)


def _relevance(part: str, sets: Figures) -> Iterator[tuple[str, float, str]]:
    for name, own in sets.items():
        rows = own.get("outcomes", "")
        yield f"{part} {name} auc", own["auc_evaluator"], rows
        yield f"{part} {name} first", own["first_evaluator"], _only_best(rows)


def _kinds(part: str, languages: Figures) -> Iterator[tuple[str, float, str]]:
    for language, kinds in languages.items():
        for kind, own in kinds.items():
            yield f"{part} {language} {kind}", 1 - own["above"], own.get("outcomes", "")


def _acceptance(part: str, acceptance: Figures) -> Iterator[tuple[str, float, str]]:
    for language, kinds in _dicts(acceptance):
        for kind, own in kinds.items():
            right = own["accepted"] if own["right"] else 1 - own["accepted"]
            yield f"{part} {language} {kind}", right, own.get("outcomes", "")


def _actions(part: str, actions: Figures) -> Iterator[tuple[str, float, str]]:
    for name, own in _dicts(actions):
        yield f"{part} {name}", own["accuracy"], own.get("outcomes", "")
        yield f"{part} {name} not needless", 1 - own["needless_searches"], own.get("spared", "")


def _needs(_: str, judgements: Figures) -> Iterator[tuple[str, float, str]]:
    for language, parts in judgements.get("need", {}).items():
        for name, own in parts.items():
            yield f"need {language} {name}", own["accuracy"], own.get("outcomes", "")


def _spans(part: str, sets: Figures) -> Iterator[tuple[str, float, str]]:
    for name, own in sets.items():
        yield f"{part} {name}", own["f1"], own.get("outcomes", "")


def _manuals(part: str, manuals: Figures) -> Iterator[tuple[str, float, str]]:
    for name, own in manuals.items():
        if "evaluator" in own:
            rows = own["evaluator"].get("outcomes", "")
            yield f"{part} {name} first", own["evaluator"]["first"], _only_best(rows)
            yield f"{part} {name} mrr", own["evaluator"]["mrr"], rows
        for key in ("auc", "standing_auc"):
            if key in own:
                yield f"{part} {name} {key.replace('_', ' ')}", own[key], ""


def _only_best(rows: str) -> str:
    return "".join("9" if row == "9" else "0" for row in rows)


def _dicts(figures: Figures) -> Iterator[tuple[str, Figures]]:
    return ((name, own) for name, own in figures.items() if isinstance(own, dict))


_PARTS: dict[str, Callable[[str, Figures], Iterator[tuple[str, float, str]]]] = {
    "tests": _relevance,
    "validation": _relevance,
    "kinds": _kinds,
    "acceptance": _acceptance,
    "actions": _actions,
    "judgements": _needs,
    "spans": _spans,
    "manuals": _manuals,
}


if __name__ == "__main__":
    one, other = (json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:3])
    for name in sorted(held(one).keys() - held(other).keys()):
        sys.stdout.write(f"ABSENT {name}\n")
    for each in changes(kept(one, ""), kept(other, "")):
        if each.now < each.before:
            rows = f"{each.gained} rows gained, {each.lost} lost, p {each.chance:.3f}"
            verdict = "FELL" if each.fell else "lower"
            sys.stdout.write(f"{verdict} {each.name}: {each.before} -> {each.now}; {rows}\n")
