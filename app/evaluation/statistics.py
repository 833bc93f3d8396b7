"""Means with intervals, paired differences, agreement: never a NaN, None where nothing is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

SAMPLES = 2000
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` values with its 95 % interval, None where there is nothing to average."""

    mean: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0


def rounded(value: float | None) -> float | None:
    """To four digits, so that equal results are equal files."""
    if value is None or not isfinite(value):
        return None
    return round(float(value), DIGITS) + 0.0  # no -0.0


def mean(values: Sequence[float | None], seed: int = 0) -> Estimate:
    """The mean of those that are known, with its bootstrap interval (percentiles)."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if not known.size:
        return Estimate(None)
    low, high = _interval(known, seed)
    return Estimate(rounded(float(known.mean())), low, high, known.size)


def paired_difference(
    ours: Sequence[float | None], theirs: Sequence[float | None], seed: int = 0
) -> Estimate:
    """Mean of ours minus theirs over the questions that both are known of, resampled in pairs."""
    both = zip(ours, theirs, strict=True)
    return mean([a - b if a is not None and b is not None else None for a, b in both], seed)


def _interval(known: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> tuple[
    float | None, float | None
]:  # fmt: skip
    if known.size < 2:
        return None, None
    rng = np.random.default_rng(seed)
    means = [known[rng.integers(0, known.size, known.size)].mean() for _ in range(SAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return rounded(float(low)), rounded(float(high))


def kappa(ours: Sequence[bool], theirs: Sequence[bool]) -> float | None:
    """Cohen's kappa: agreement beyond chance; None where one side knows a single verdict."""
    a, b = np.array(ours, dtype=bool), np.array(theirs, dtype=bool)
    if not a.size:
        return None
    by_chance = float(a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean()))
    if by_chance == 1.0:
        return None
    return rounded((float((a == b).mean()) - by_chance) / (1 - by_chance))


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """p(a positive scores above a negative), ties half; None without one of either."""
    values, is_positive = np.array(scores, dtype=float), np.array(labels, dtype=bool)
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    above = float(ranks[is_positive].sum()) - positives * (positives + 1) / 2
    return rounded(above / (positives * negatives))
