"""What a loaded checkpoint offers the worker, whichever backend computes it."""

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evaluator.errors import WeightsError
from evaluator.schema import LABELS, TASKS, Task, score_of
from evaluator.settings import EvaluatorSettings

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """One pair as token ids, ready for a batch."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowScore:
    """One pair's judgement; `probabilities` is empty from a checkpoint that only regresses."""

    score: float
    label: str
    probabilities: dict[str, float]


def judged(task: Task, logits: npt.NDArray[np.float32]) -> RowScore | str:
    """One row's judgement from the logits of all reflection tokens, shape (13,)."""
    first = sum(len(LABELS[other]) for other in TASKS[: TASKS.index(task)])
    mine = logits[first : first + len(LABELS[task])].astype(np.float64)
    if not np.isfinite(mine).all():
        return "The model gave no number for this pair."
    weights = np.exp(mine - mine.max())
    shares = (weights / weights.sum()).tolist()
    probabilities = dict(zip(LABELS[task], shares, strict=True))
    label = max(probabilities, key=probabilities.__getitem__)
    return RowScore(score_of(task, probabilities), label, probabilities)


def padded(rows: Sequence[Row]) -> tuple[Ids, Ids]:
    """Token ids and mask of a batch, both (rows, longest); 0 pads on the right."""
    width = max(len(row.ids) for row in rows)
    ids = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
        mask[number, : len(row.ids)] = 1
    return ids, mask


def known_tasks(config: dict[str, Any]) -> tuple[Task, ...]:
    """The tasks a checkpoint of ours was trained for, as its config says."""
    found = tuple(task for task in TASKS if task in config.get("tasks", []))
    if not found:
        raise WeightsError("config.json names no task this worker knows.")
    return found


class Scorer(Protocol):
    """A checkpoint, loaded. Both methods are CPU work: call them in a thread."""

    name: str
    tasks: tuple[Task, ...]

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        """Token ids of each pair, or the reason why a pair cannot be scored."""

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        """Judge one padded batch; a row's reason where its result is no number."""


_BACKENDS = {"onnx": "evaluator.onnx_backend", "torch": "evaluator.torch_backend"}


def load_scorer(settings: EvaluatorSettings) -> Scorer:
    """Load the configured checkpoint with the configured backend.

    The backend's module is imported by name, so that serving on ONNX Runtime never imports
    torch. Raises WeightsError when the folder or what the backend needs is missing.
    """
    check_folder(settings.weights)
    try:
        backend = importlib.import_module(_BACKENDS[settings.backend])
    except ModuleNotFoundError as error:
        raise WeightsError(
            f"The {settings.backend} backend needs the package {error.name}: install it, or set "
            "SELFCRAG_EVALUATOR_BACKEND to the other backend."
        ) from error
    scorer: Scorer = backend.load(settings)
    return scorer


_FORBIDDEN_KEYS = ("auto_map", "_attn_implementation_internal")
_PICKLED = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"}


def check_folder(folder: Path) -> dict[str, Any]:
    """The folder's config.json, once the folder is found fit to be opened at all.

    Refused by name: pickled weights, and configs that would run code of their own.
    """
    config_path = folder / "config.json"
    if not config_path.is_file():
        raise WeightsError(
            f"No evaluator weights in {folder} (config.json is missing). Point "
            "SELFCRAG_EVALUATOR_WEIGHTS at a checkpoint folder or train one."
        )
    for path in sorted(folder.iterdir()):
        if path.suffix in _PICKLED:
            raise WeightsError(f"{path} is refused: pickled weights can run code; use safetensors.")
    try:
        config = json.loads(config_path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WeightsError(f"{config_path} is no JSON: {error}") from error
    for key in _FORBIDDEN_KEYS:
        if isinstance(config, dict) and key in config:
            raise WeightsError(f"{config_path} is refused: it sets {key}, which can run code.")
    if not isinstance(config, dict):
        raise WeightsError(f"{config_path} must hold an object.")
    if not (folder / "model.safetensors").is_file():
        raise WeightsError(f"{folder / 'model.safetensors'} is missing.")
    return config
