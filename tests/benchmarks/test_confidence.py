"""The confidence that ships is the one that the committed figures give."""

import json

import pytest

from benchmarks.confidence import FIGURES, fit, report
from graphs.reflection.confidence import SHIFT, SLOPE


def test_slope_and_shift_are_those_of_the_figures() -> None:
    rows = json.loads(FIGURES.read_text("utf-8"))

    assert fit(rows) == (pytest.approx(SLOPE, abs=0.05), pytest.approx(SHIFT, abs=0.005))
    assert FIGURES.with_suffix(".md").read_text("utf-8") == report(rows)
