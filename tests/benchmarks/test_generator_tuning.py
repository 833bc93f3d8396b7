"""The page on tuning a generator says what the seeds show, and denies what they do not."""

from typing import Any

import pytest

from benchmarks.generator_tuning_report import interval, page

TESTED = ("none", "g", "r", "gr")


def seed(g: float, gr: float) -> dict[str, Any]:
    """Token F1 on D_gr of M_g and M_gr; everything else is 0."""
    on = {"b": 0.0, "g": g, "gr": gr}
    cell = {"f1": 0.0, "coverage": 0.0}
    run = {
        "losses": [[1, 3.0], [2, 1.0]], "minutes": 1.0, "before": {"f1": 0.0}, "after": {"f1": 0.5}
    }  # fmt: skip
    return {
        "table": {
            name: {it: {**cell, "f1": f1} if it == "gr" else cell for it in TESTED}
            for name, f1 in on.items()
        },
        "runs": {"g": run, "gr": run},
    }


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ([0.3, 0.4, 0.5], "is not shown here: +0.200 ± 0.248"),
        ([0.31, 0.3, 0.29], "is shown here: +0.100 ± 0.025"),
        ([0.1, 0.11, 0.09], "is denied here: -0.100 ± 0.025"),
        ([0.0, 0.2, 0.6], "is not shown here: +0.067 ± 0.759"),
    ],
)
def test_the_finding_is_shown_denied_or_left_open(ours: list[float], said: str) -> None:
    seeds = {str(n): seed(0.2, gr) for n, gr in enumerate(ours)}
    figures = {
        "rank": 1, "rows": 10, "base_steps": 5, "tested": 4, "tested_seed": 0, "published": None,
        "tested_on": TESTED, "tuned_on": ["g", "gr"], "seeds": seeds,
    }  # fmt: skip
    assert said in page(figures).replace("\n", " ")


def test_an_interval_is_students() -> None:
    assert interval([0.25]) == (0.25, 0.0)
    assert interval([0.1, 0.2, 0.3]) == pytest.approx((0.2, 4.303 * 0.1 / 3**0.5), abs=1e-4)
