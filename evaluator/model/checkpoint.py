"""Checkpoint folders: what may be opened, the digest of the tensors, the stored thresholds."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evaluator.errors import WeightsError
from evaluator.schema import TASKS, CalibratedThresholds, Task

ARCHITECTURE = "selfcrag-t5-joint"
"""What config.json calls the checkpoints that `train` makes."""
E5_ARCHITECTURE = "selfcrag-e5"
"""And the embedders that `embedder` makes."""
EMBEDDER_FILE = "embedder.onnx"
CENTRE_FILE = "centre.npy"
NEED_FILE = "need.npy"
"""Beside the embedder, optional: the linear layer that tells whether a question needs retrieval."""
ENCODER_FOLDER = "encoder"
"""Of an evaluator's folder: the embedder whose reading joins the relevance."""
FUSION_FILE = "fusion.json"
THRESHOLDS_FILE = "thresholds.json"
TENSORS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
WORDS = "t5.encoder.embeddings.word_embeddings.weight"
"""The word table, by the tensors' names."""
BYTES, NIBBLES, SCALE = "bytes", "nibbles", "scale"
BLOCK = 32  # values at four bits that share a scale
LOOKED_UP = "embeddings.weight"
"""How tables' names end, which are not multiplied."""
SHARDS_INDEX = "model.safetensors.index.json"
"""Names the files of tensors that are stored in several."""

_FORBIDDEN_KEYS = ("auto_map", "_attn_implementation_internal", "custom_pipelines")
_PICKLED = (
    ".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill", ".bin.index.json",
)  # fmt: skip
_TRAINING_DATA = "data_config.json"  # a list beside sentence-transformers models; nobody reads it


def check_folder(folder: Path, part: str = "evaluator") -> dict[str, Any]:
    """The folder's config.json, once the folder is found fit to be opened at all.

    Raises WeightsError for pickled weights at any depth, also where only their index is there, and
    for configs that would run code of their own. `part` is the evaluator, reranker or embedder.
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
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise WeightsError(f"{path} must hold an object.")
    return value


def _forbidden_key(value: object) -> str | None:
    """The first key at any depth that names code to run."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _FORBIDDEN_KEYS:
                return str(key)
            if below := _forbidden_key(inner):
                return below
    if isinstance(value, list):
        return next(filter(None, map(_forbidden_key, value)), None)
    return None


def _check_tensors(folder: Path, *, may_be_sharded: bool) -> None:
    """One safetensors file or, in transformers' form, an index whose shards lie beside it."""
    if (folder / TENSORS_FILE).is_file():
        return
    index = folder / SHARDS_INDEX
    if not may_be_sharded or not index.is_file():
        raise WeightsError(f"{folder / TENSORS_FILE} is missing.")
    shards = _object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise WeightsError(f"{index} names no shards.")
    for name in sorted({str(shard) for shard in shards.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise WeightsError(f"{index} is refused: {name} is not a safetensors file beside it.")
        if not (folder / name).is_file():
            raise WeightsError(f"{folder / name}, a shard that {index.name} names, is missing.")


def vocabulary_of(embedder: Path) -> Path:
    """The folder of its tokenizer and word table: its own, or the evaluator's that it lies in."""
    return embedder if (embedder / TOKENIZER_FILE).is_file() else embedder.parent


def known_tasks(config: dict[str, Any]) -> tuple[Task, ...]:
    """The tasks a checkpoint of ours was trained for, as its config says; WeightsError if none."""
    if "architectures" in config:
        raise WeightsError(
            "This checkpoint has the form of transformers, not of this project's evaluators, and "
            "no ONNX graph: SELFCRAG_EVALUATOR_BACKEND=torch serves a T5ForSequenceClassification."
        )
    tasks = tuple(task for task in TASKS if task in config.get("tasks", []))
    if not tasks:
        raise WeightsError("config.json names no task this worker knows.")
    return (*tasks, "answer") if "relevance" in tasks else tasks


def weights_digest(folder: Path) -> str:
    """`sha256:...` of all that decides a score, shards and fusion included: thresholds' owner."""
    files, index = [folder / TENSORS_FILE], folder / SHARDS_INDEX
    if not files[0].is_file() and index.is_file():
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        files = [folder / name for name in sorted(set(shards))]
    if (folder / FUSION_FILE).is_file():
        encoder = folder / ENCODER_FOLDER
        files += [folder / FUSION_FILE, encoder / TENSORS_FILE, encoder / CENTRE_FILE]
        files += filter(Path.is_file, [encoder / NEED_FILE])
    if missing := [path for path in files if not path.is_file()]:
        raise WeightsError(f"{missing[0]} is missing.")
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as content:
            hashlib.file_digest(content, lambda: digest)
    return f"sha256:{digest.hexdigest()}"


def files_digest(paths: Iterable[Path]) -> str:
    """SHA-256 over the files' names and contents, in hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as content:
            digest.update(path.name.encode() + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def name_of(base: str, digest: str) -> str:
    """What a checkpoint is called: its digest tells checkpoints of one base name apart."""
    return f"{base}@{digest.removeprefix('sha256:')[:8]}"


def load_thresholds(
    folder: Path, digest: str | None = None, *, allow_foreign: bool = False
) -> CalibratedThresholds:
    """Read `thresholds.json` of a weights folder.

    Raises WeightsError when it is absent, unreadable, or, unless `allow_foreign`, made for other
    weights than those of `digest`: the folder's own where none is given.
    """
    path = folder / THRESHOLDS_FILE
    try:
        stored = CalibratedThresholds.model_validate_json(path.read_bytes())
        if not allow_foreign and stored.evaluator != (digest or weights_digest(folder)):
            raise WeightsError(
                f"{path} belongs to other weights: run `selfcrag-evaluator calibrate` for these."
            )
        return stored
    except FileNotFoundError:
        raise WeightsError(
            f"{path} is missing: run `selfcrag-evaluator calibrate` for these weights."
        ) from None
    except (OSError, ValidationError) as error:
        raise WeightsError(f"{path} cannot be read as thresholds: {error}") from error
