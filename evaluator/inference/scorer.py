"""What a loaded checkpoint offers the worker, whichever backend computes it."""

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from evaluator.errors import WeightsError
from evaluator.schema import LABELS, SHARDS_INDEX, TASKS, Task, score_of
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


def padded(rows: Sequence[Row], pad: int = 0) -> tuple[Ids, Ids]:
    """Token ids and mask of a batch, both (rows, longest); `pad` fills up on the right."""
    width = max(len(row.ids) for row in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
        mask[number, : len(row.ids)] = 1
    return ids, mask


def known_tasks(config: dict[str, Any]) -> tuple[Task, ...]:
    """The tasks a checkpoint of ours was trained for, as its config says; WeightsError if none."""
    if "architectures" in config:
        raise WeightsError(
            "This checkpoint has the form of transformers, not of this project's evaluators, and "
            "no ONNX graph: SELFCRAG_EVALUATOR_BACKEND=torch serves a T5ForSequenceClassification."
        )
    found = tuple(task for task in TASKS if task in config.get("tasks", []))
    if not found:
        raise WeightsError("config.json names no task this worker knows.")
    return found


def name_of(named: str, digest: str) -> str:
    """What a checkpoint is called: its digest tells apart what is `named` alike."""
    return f"{named}@{digest.removeprefix('sha256:')[:8]}"


def input_length(settings: EvaluatorSettings, longest: int) -> int:
    """Tokens of the longest input, as set or `longest`; WeightsError where it is set above that."""
    if settings.max_length > longest:
        raise WeightsError(
            f"SELFCRAG_EVALUATOR_MAX_LENGTH is {settings.max_length}, but this checkpoint reads at "
            f"most {longest} tokens."
        )
    return settings.max_length or longest


class Scorer(Protocol):
    """A checkpoint, loaded. Both methods are CPU work: call them in a thread."""

    name: str
    digest: str  # of the tensors as they were loaded (weights_digest)
    tasks: tuple[Task, ...]

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        """Token ids of each pair, or the reason why a pair cannot be scored."""

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        """Judge one padded batch; a row's reason where its result is no number."""


_BACKENDS = {"onnx": "evaluator.inference.onnx_scorer", "torch": "evaluator.inference.torch_scorer"}


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


def load_scorers(settings: EvaluatorSettings) -> tuple[Scorer, ...]:
    """The evaluator and, where its folder is named, the reranker. Raises WeightsError."""
    scorer = load_scorer(settings)
    return (scorer, load_reranker(settings)) if settings.reranker else (scorer,)


def load_reranker(settings: EvaluatorSettings) -> Scorer:
    """The reranker of the settings, on PyTorch. Raises WeightsError."""
    return cast("Scorer", import_torch("reranker").load(settings))


def import_torch(module: str) -> Any:
    """A module of this package that needs PyTorch; WeightsError says how to get what is absent."""
    try:
        return importlib.import_module(f"evaluator.inference.{module}")
    except ModuleNotFoundError as error:
        raise WeightsError(
            f"The {module} needs the package {error.name}: pip install 'self-crag[gpu]'."
        ) from error


_FORBIDDEN_KEYS = ("auto_map", "_attn_implementation_internal", "custom_pipelines")
_PICKLED = (
    ".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill", ".bin.index.json",
)  # fmt: skip
_TRAINING_DATA = "data_config.json"  # a list beside sentence-transformers models; nobody reads it


def check_folder(folder: Path, part: str = "evaluator") -> dict[str, Any]:
    """The folder's config.json, once the folder is found fit to be opened at all.

    Refused by name, at any depth: pickled weights, also where only their index is there, and
    configs that would run code of their own. `part` is the evaluator, reranker or embedder.
    """
    config_path = folder / "config.json"
    if not config_path.is_file():
        variable, remedy = (
            ("WEIGHTS", " or train one") if part == "evaluator" else (part.upper(), "")
        )
        raise WeightsError(
            f"No {part} weights in {folder} (config.json is missing). Point "
            f"SELFCRAG_EVALUATOR_{variable} at a checkpoint folder{remedy}."
        )
    for path in sorted(folder.rglob("*")):
        if path.name.lower().endswith(_PICKLED):
            raise WeightsError(f"{path} is refused: pickled weights can run code; use safetensors.")
    for path in sorted(folder.rglob("*config.json")):
        if path.name == _TRAINING_DATA:
            continue
        if key := _forbidden_key(_object(path)):
            raise WeightsError(f"{path} is refused: it sets {key}, which can run code.")
    config = _object(config_path)
    _check_tensors(folder, may_be_sharded="architectures" in config)
    return config


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise WeightsError(f"{path} must hold an object.")
    return found


def _forbidden_key(value: object) -> str | None:
    """The first key at any depth that names code to run."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _FORBIDDEN_KEYS:
                return str(key)
            if found := _forbidden_key(inner):
                return found
    if isinstance(value, list):
        return next(filter(None, map(_forbidden_key, value)), None)
    return None


def _check_tensors(folder: Path, *, may_be_sharded: bool) -> None:
    """One safetensors file or, in transformers' form, an index whose shards lie beside it."""
    if (folder / "model.safetensors").is_file():
        return
    index = folder / SHARDS_INDEX
    if not may_be_sharded or not index.is_file():
        raise WeightsError(f"{folder / 'model.safetensors'} is missing.")
    shards = _object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise WeightsError(f"{index} names no shards.")
    for name in sorted({str(shard) for shard in shards.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise WeightsError(f"{index} is refused: {name} is no safetensors file of its folder.")
        if not (folder / name).is_file():
            raise WeightsError(f"{folder / name}, a shard that {index.name} names, is missing.")
