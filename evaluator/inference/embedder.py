"""A sentence-transformers model as the worker's embedder, on PyTorch."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer

from evaluator.errors import WeightsError
from evaluator.inference.scorer import check_folder
from evaluator.inference.torch_scorer import place
from evaluator.serving.embeddings_api import Embedder, InputType, Vectors
from evaluator.settings import EvaluatorSettings

MOST_TOKENS = 512  # of one text, where the model names no bound of its own
_CHARS_PER_TOKEN = 16
_ROWS = 32  # of a batch of texts of MOST_TOKENS; more of shorter ones


class SentenceEmbedder:
    """Unit vectors; bf16 on a GPU, fp32 on a CPU."""

    def __init__(self, folder: Path, settings: EvaluatorSettings) -> None:
        device, precision = place(settings)
        self._model = _model(folder, device, precision)
        self.name = f"{folder.resolve().name}@{_digest(folder)[:8]}"
        self._length = int(self._model.max_seq_length or MOST_TOKENS)
        self._model.max_seq_length = self._length
        self.dimensions = len(self._model.encode("warm", show_progress_bar=False))
        self._prefixes: dict[InputType, str] = {
            "query": settings.embedder_query_prefix,
            "passage": settings.embedder_passage_prefix,
        }

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        own = {"query": self._model.encode_query, "passage": self._model.encode_document}
        encode = own[input_type] if input_type else self._model.encode
        prefix = self._prefixes[input_type] if input_type else ""
        cut = [text[: self._length * _CHARS_PER_TOKEN] for text in texts]
        read = self._model.tokenizer(cut, truncation=True, max_length=self._length)["input_ids"]
        longest = max(map(len, read))
        vectors: Any = encode(
            cut,
            prompt=prefix or None,
            batch_size=max(1, _ROWS * MOST_TOKENS // longest),
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return vectors.astype("float32"), sum(map(len, read))


def _model(folder: Path, device: torch.device, precision: torch.dtype) -> SentenceTransformer:
    _check(folder)
    try:
        return SentenceTransformer(
            str(folder),
            device=str(device),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"dtype": precision, "use_safetensors": True},
        ).eval()
    except (OSError, RuntimeError, ValueError, KeyError, ImportError, SafetensorError) as error:
        raise WeightsError(f"The embedder in {folder} cannot be loaded: {error}") from error


def _check(folder: Path) -> None:
    """Refuses what would run other code than the library's or reach out of the folder."""
    check_folder(folder, "embedder")
    listed = folder / "modules.json"
    try:
        modules = json.loads(listed.read_text(encoding="utf-8"))
        parts = [(str(module["type"]), str(module["path"])) for module in modules]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{listed} is needed of a sentence-transformers folder.") from error
    for kind, path in parts:
        if not kind.startswith("sentence_transformers."):
            raise WeightsError(f"{listed} is refused: it names {kind}, which can run code.")
        if not (folder / path).resolve().is_relative_to(folder.resolve()):
            raise WeightsError(f"{listed} is refused: {path} lies outside of its folder.")


def _digest(folder: Path) -> str:
    """Over all that decides a vector: tensors, tokenizer and configs."""
    found = hashlib.sha256()
    files = [path for path in folder.rglob("*") if path.suffix in {".safetensors", ".json"}]
    for path in sorted(files):
        with path.open("rb") as content:
            found.update(path.name.encode() + hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


def load(settings: EvaluatorSettings) -> Embedder:
    """The embedder of the settings. Raises WeightsError."""
    assert settings.embedder is not None
    return SentenceEmbedder(settings.embedder, settings)
