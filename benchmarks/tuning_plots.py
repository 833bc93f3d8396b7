"""Draws docs/.images/tuning_*.png from benchmarks/tuning.json, and prints the figures."""

import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.tuning import FOUND
from graphs.grading.actions import action_of

IMAGES = Path(__file__).parents[1] / "docs" / ".images"
COLOURS = {"correct": "#009e73", "ambiguous": "#e69f00", "incorrect": "#d55e00"}
KINDS = {"covered": "covered", "half": "half covered", "elsewhere": "something else"}
VALUES = {
    "upper": (0.0, 0.2, 0.4, 0.8, 0.9, 0.97),
    "lower": (-0.99, -0.95, -0.8, -0.4, -0.2, 0.0),
    "strip_floor": (-0.95, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9),
}
TOP_STRIPS = 5

Row = dict[str, Any]


def shares(rows: list[Row], upper: float, lower: float) -> dict[str, float]:
    """Of each action among the rows, under these thresholds."""
    actions = [action_of(row["documents"], upper, lower) for row in rows]
    return {action: actions.count(action) / len(actions) for action in COLOURS}  # type: ignore[arg-type]


def kept(row: Row, floor: float) -> int:
    """Strips that refinement keeps under this floor."""
    return min(TOP_STRIPS, sum(float(score) >= floor for score in row["strips"]))


def values_of(option: str, own: float) -> list[float]:
    return sorted((*VALUES[option], own))


def labels_of(values: list[float], own: float) -> list[str]:
    return [f"{value:.2f}\nown" if value == own else f"{value:g}" for value in values]


def draw_actions(rows: list[Row], option: str, path: Path) -> None:
    """Stacked shares of the three actions, a panel for each kind of question."""
    own = rows[0]["thresholds"]
    values = values_of(option, own[option])
    figure = Figure(figsize=(10, 3), layout="constrained")
    panels: list[Axes] = list(figure.subplots(1, len(KINDS), sharey=True))
    for panel, (kind, title) in zip(panels, KINDS.items(), strict=True):
        of_kind = [row for row in rows if row["kind"] == kind]
        bounds = [{"upper": own["upper"], "lower": own["lower"], option: value} for value in values]
        found = [shares(of_kind, **bound) for bound in bounds]
        print(option, kind, dict(zip(values, found, strict=True)))  # noqa: T201
        bottom = [0.0] * len(values)
        for action, colour in COLOURS.items():
            heights = [share[action] for share in found]
            bars = labels_of(values, own[option])
            panel.bar(bars, heights, bottom=bottom, color=colour, label=action)
            bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
        panel.set_title(f"{title} ({len(of_kind)} questions)", fontsize=10)
        panel.set_xlabel(option)
        panel.tick_params(labelsize=8)
    panels[0].set_ylabel("share of questions")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    figure.savefig(path, dpi=80)


def draw_strips(rows: list[Row], path: Path) -> None:
    """How many strips are kept, a line for each kind of question."""
    own = rows[0]["thresholds"]["strip_floor"]
    values = values_of("strip_floor", own)
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    for (kind, title), colour in zip(KINDS.items(), COLOURS.values(), strict=True):
        of_kind = [row for row in rows if row["kind"] == kind]
        means = [sum(kept(row, value) for row in of_kind) / len(of_kind) for value in values]
        print("strip_floor", kind, dict(zip(values, means, strict=True)))  # noqa: T201
        axes.plot(labels_of(values, own), means, marker="o", color=colour, label=title)
    axes.set(ylim=(0, TOP_STRIPS + 0.3), ylabel="strips kept, of at most 5", xlabel="strip_floor")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    figure.savefig(path, dpi=80)


def main() -> None:
    rows = json.loads(FOUND.read_text(encoding="utf-8"))
    IMAGES.mkdir(exist_ok=True)
    for option in ("upper", "lower"):
        draw_actions(rows, option, IMAGES / f"tuning_{option}.png")
    draw_strips(rows, IMAGES / "tuning_strip_floor.png")
    covered = [row for row in rows if row["kind"] == "covered"]
    for k in (1, 3, 5, 10):
        share = sum(any(row["right"][:k]) for row in covered) / len(covered)
        print(f"right page among the best {k} graded: {share:.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
