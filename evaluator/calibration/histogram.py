"""Draws the scores thresholds were found on; the one module that needs matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from evaluator.calibration.thresholds import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {"en": "English", "zh": "Chinese"}
_KINDS = (
    (True, "a passage answers", "#0072b2"),
    (False, "no passage answers", "#e69f00"),
)  # colours that stay apart for colour-blind readers
_BINS = 50


def draw(calibration: Calibration, path: Path) -> None:
    """A PNG: per language the best scores of answered and unanswered questions, both thresholds."""
    outcomes, found = calibration.outcomes, calibration.thresholds
    everything = np.concatenate([graded.best for graded in outcomes.values()])
    edges = np.linspace(everything.min(), everything.max() + 1e-6, _BINS + 1)
    figure = Figure(figsize=(8, 0.6 + 2.8 * len(outcomes)), layout="constrained")
    rows = figure.subplots(len(outcomes), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (language, graded) in zip(rows, sorted(outcomes.items()), strict=True):
        for answered, label, colour in _KINDS:
            chosen = graded.best[graded.answered == answered]
            axes.hist(chosen, bins=edges.tolist(), alpha=0.6, color=colour, label=label)
        _mark(axes, found.lower, found.upper)
        accuracy = found.figures[f"{language}_accuracy"]
        share = found.figures[f"{language}_ambiguous_share"]
        name = f"{_NAMES.get(language, language)}, {graded.best.size} questions"
        axes.set_title(f"{name}: accuracy {accuracy:.3f}, Ambiguous {share:.3f}")
        axes.set_ylabel("questions")
    figure.legend(*rows[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    rows[-1].set_xlabel("score of a question's best passage")
    figure.savefig(path, dpi=120)


def _mark(axes: "Axes", lower: float, upper: float) -> None:
    """Both thresholds as lines, their names on the outer sides, the Ambiguous band shaded."""
    axes.axvspan(lower, upper, color="grey", alpha=0.15, linewidth=0)
    top = axes.get_ylim()[1] * 1.12
    axes.set_ylim(top=top)
    sides = (("lower", lower, "right", -4), ("upper", upper, "left", 4))
    for name, value, side, shift in sides:
        axes.axvline(value, linestyle="--", color="black", linewidth=1)
        axes.annotate(
            f"{name} {value:.3f}",
            (value, top * 0.94),
            xytext=(shift, 0),
            textcoords="offset points",
            ha=side,
        )
