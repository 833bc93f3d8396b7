"""Scores of which some may be unknown (None): those that are known tell alone."""

from collections.abc import Iterable


def best_of(scores: Iterable[float | None]) -> float | None:
    """The highest; None where none is known."""
    return max((score for score in scores if score is not None), default=None)


def mean_of(scores: Iterable[float | None]) -> float | None:
    """None where none is known."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None
