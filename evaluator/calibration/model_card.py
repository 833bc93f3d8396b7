"""Model card of a checkpoint, filled in from its training, calibration and measurements."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from evaluator.inference.fusion import load_weights
from evaluator.model.checkpoint import (
    ARCHITECTURE,
    FUSION_FILE,
    THRESHOLDS_FILE,
    check_folder,
    load_thresholds,
)
from evaluator.settings import WEIGHTS

MEASURED_FILE = "measured.json"
"""Figures of `measure --keep`, by the measured file's name."""

CARD = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
"""The card as a template, with the published sets that this project trains on."""


def write_card(folder: Path) -> Path | None:
    """Write README.md beside the weights; thresholds and measurements where they are there.

    None, and nothing written, for a checkpoint that `train` did not make.
    """
    config = check_folder(folder)
    if "made_by" not in config or config.get("architecture") != ARCHITECTURE:
        return None
    made_by = config["made_by"]
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    card = environment.from_string(CARD).render(
        is_shipped=folder.resolve() == WEIGHTS.resolve(),
        config=config,
        made_by=made_by,
        options={"frozen_layers": 0, **made_by["options"]},
        training=made_by["training"],
        fusion=load_weights(folder) if (folder / FUSION_FILE).exists() else None,
        thresholds=load_thresholds(folder) if (folder / THRESHOLDS_FILE).exists() else None,
        measured=_measured(folder),
    )
    path = folder / "README.md"
    path.write_text(card, encoding="utf-8")
    return path


def keep_figures(folder: Path, name: str, figures: dict[str, float]) -> None:
    """Add one file's measurement to the folder's measured.json."""
    known = {**_measured(folder), name: figures}
    (folder / MEASURED_FILE).write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def _measured(folder: Path) -> dict[str, Any]:
    path = folder / MEASURED_FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
