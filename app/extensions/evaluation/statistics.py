"""Means with intervals, paired differences: never a NaN, None where nothing is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

SAMPLES, AT_ONCE = 2000, 100
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


def share(values: Sequence[float]) -> float | None:
    """The plain mean; None of nothing."""
    return sum(values) / len(values) if values else None


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


def _interval(known: NDArray[np.float64], seed: int) -> tuple[float | None, float | None]:
    if known.size < 2:
        return None, None
    rng = np.random.default_rng(seed)
    drawn = (AT_ONCE, known.size)
    means = [known[rng.integers(0, known.size, drawn)].mean(1) for _ in range(SAMPLES // AT_ONCE)]
    low, high = np.percentile(means, [2.5, 97.5])
    return rounded(float(low)), rounded(float(high))
