"""Model card of a checkpoint, filled in from its training, calibration and measurements."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

from evaluator.data.text import named_sections
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

SECTIONS = named_sections(Path(__file__).with_suffix(".txt"))
"""The card's text by section, with `$names` for what is filled in."""

SOURCES = dict(line.split(" | ", 1) for line in SECTIONS["sources"].splitlines())
"""Published sets this project trains on: what they hold and their licence."""

_OWN = "own data | as its owner says"
_FIGURES = ("accuracy", "correct_precision", "correct_recall", "incorrect_precision",
            "incorrect_recall", "ambiguous_share", "web_searches", "needless_searches",
            "other_strips_dropped", "questions")  # fmt: skip
_SOURCE = {
    "data": (
        " --data DIR --most N",
        "held-back questions with their ten nearest passages, half of them without any\n"
        "passage that answers",
    ),
    "questions": (" --questions FILE", "labelled questions of a file"),
    "": ("", "questions"),  # thresholds of an older version do not tell
}
_AIMS = {
    "ambiguous_cost": "--ambiguous-cost",
    "wrong_correct_cost": "--wrong-correct-cost",
    "wrong_incorrect_cost": "--wrong-incorrect-cost",
    "least_correct_precision": "--least-precision",
    "least_incorrect_precision": "--least-incorrect-precision",
    "strip_floor_keeps": "--strips-kept",
}
"""The figures of thresholds.json that say what they were chosen for, by their flags."""


def write_card(folder: Path) -> Path | None:
    """Write README.md beside the weights; thresholds and measurements where they are there.

    None, and nothing written, for a checkpoint that `train` did not make.
    """
    config = check_folder(folder)
    if "made_by" not in config or config.get("architecture") != ARCHITECTURE:
        return None
    made_by = config["made_by"]
    options, training = made_by["options"], made_by["training"]
    is_shipped = folder.resolve() == WEIGHTS.resolve()
    values = {
        "device": "a CPU",
        "nowhere": 0.0,
        **config,
        **training,
        **options,
        "title": "The shipped evaluator" if is_shipped else "An evaluator of one's own",
        "tasks": ", ".join(config["tasks"]),
        "initialization": SECTIONS.get(options["init"], SECTIONS["folder"]),
        "chosen_by": ", ".join(options["left_out"]) or "none",
        "flags": _flags(options),
        "frozen": _frozen(options),
        "new_rate": f"{options['new_rate']:g}",
        "minutes": f"{options['minutes']:g}",
        "minutes_taken": training["minutes"],
        "before": "".join(
            f" Before that: {run['rows_seen']} rows in {run['minutes']} minutes"
            f" on {run.get('device', training.get('device', 'a CPU'))}."
            for run in reversed(training.get("before", ()))
        ),
        "learning_rate": f"{options['learning_rate']:g}",
        "shares": ", ".join(f"{task} {share:g}" for task, share in options["shares"].items()),
        "files": "\n".join(
            f"| {name} | {SOURCES.get(name.split('.')[0], _OWN)} | `{digest[:12]}` |"
            for name, digest in made_by["data"].items()
        ),
        "kinds": "\n".join(f"| {kind} | {count} |" for kind, count in made_by["kinds"].items()),
        "figures": "\n".join(
            f"| {name} | {of_set['figure']:.3f} | {of_set['rows']} |"
            for name, of_set in made_by["validation"].items()
        ),
    }
    parts = [_filled(name, values) for name in ("head", "data", "training", "validation")]
    if (folder / FUSION_FILE).exists():
        weights = load_weights(folder)
        parts.append(_filled("fusion", _signed(weights.model_dump())))
    if (folder / THRESHOLDS_FILE).exists():
        parts.append(_thresholds(folder))
    if (folder / MEASURED_FILE).exists():
        parts.append(_measured(_read(folder / MEASURED_FILE)))
    path = folder / "README.md"
    path.write_text("\n\n".join([*parts, SECTIONS["limits"]]) + "\n", encoding="utf-8")
    return path


def _frozen(options: Mapping[str, Any]) -> str:
    layers = options.get("frozen_layers")
    return f"the embeddings and the {layers} lowest layers" if layers else "the word table"


def _flags(options: Mapping[str, Any]) -> str:
    """Of `train`, beside those that the card's command names."""
    frozen = options.get("frozen_layers")
    return (
        f" --learning-rate {options['learning_rate']:g} --train-length {options['train_length']}"
        + "".join(f" --left-out {name}" for name in options["left_out"])
        + (f" --frozen-layers {frozen}" if frozen else "")
    )


def keep_figures(folder: Path, name: str, figures: dict[str, float]) -> None:
    """Add one file's measurement to the folder's measured.json."""
    path = folder / MEASURED_FILE
    known = _read(path) if path.exists() else {}
    path.write_text(json.dumps({**known, name: figures}, indent=2) + "\n", encoding="utf-8")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _filled(section: str, values: Mapping[str, object]) -> str:
    return Template(SECTIONS[section]).substitute(values)


def _signed(values: Mapping[str, float]) -> dict[str, str]:
    """Fractions to three digits; the shift with its sign apart."""
    rounded = {k: f"{v:.3g}" if isinstance(v, float) else str(v) for k, v in values.items()}
    sign = "-" if values["shift"] < 0 else "+"
    return rounded | {"shift": f"{sign} {abs(values['shift']):.3g}"}


def _thresholds(folder: Path) -> str:
    stored = load_thresholds(folder)
    rows = ["| | " + " | ".join(name.replace("_", " ") for name in _FIGURES) + " |"]
    rows.append("|---" * (len(_FIGURES) + 1) + "|")
    for language in ("en", "zh"):
        cells = [f"{stored.figures.get(f'{language}_{name}', 0):.3g}" for name in _FIGURES]
        rows.append(f"| {language} | " + " | ".join(cells) + " |")
    source, kind = _SOURCE[stored.source]
    aims = (
        f" {flag} {stored.figures[name]:g}"
        for name, flag in _AIMS.items()
        if name in stored.figures
    )
    limits = {name: f"{getattr(stored, name):.3f}" for name in ("upper", "lower", "strip_floor")}
    pool = (
        _filled("pool", _signed(asdict(stored.pool)))
        if stored.pool
        else "Each passage is graded alone."
    )
    values = {
        "source": source, "aims": "".join(aims), "questions": stored.questions, "pool": pool,
    }  # fmt: skip
    return _filled("thresholds", {**limits, **values, "kind": kind, "table": "\n".join(rows)})


def _measured(measured: dict[str, dict[str, float]]) -> str:
    names = [f"{kind}_{scorer}" for kind in ("auc", "first")
             for scorer in ("evaluator", "bm25", "e5")]  # fmt: skip
    rows = [
        f"| {file} | {f['questions']:.0f} | "
        + " | ".join(f"{f[name]:.3f}" if name in f else "-" for name in names)
        + " |"
        for file, f in measured.items()
    ]
    return _filled("measured", {"rows": "\n".join(rows)})
