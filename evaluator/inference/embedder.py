"""Text embedder: a sentence-transformers model behind `POST /v1/embeddings`, on PyTorch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer

from evaluator.errors import WeightsError
from evaluator.inference.scorer import InputType, TextEmbedder, Vectors
from evaluator.inference.torch_scorer import place
from evaluator.model.checkpoint import check_folder, files_digest, name_of
from evaluator.model.tokenization import CHARS_PER_TOKEN
from evaluator.settings import EvaluatorSettings

MAX_TOKENS = 512  # of one text, where the model names no bound of its own
_ROWS = 32  # of a batch of texts of MAX_TOKENS; more of shorter ones


class SentenceEmbedder:
    """Unit vectors; bf16 on a GPU, fp32 on a CPU."""

    def __init__(self, folder: Path, settings: EvaluatorSettings) -> None:
        device, precision = place(settings)
        self._model = _model(folder, device, precision)
        self.name = name_of(folder.resolve().name, _digest(folder))
        self._length = int(self._model.max_seq_length or MAX_TOKENS)
        self._model.max_seq_length = self._length
        self.dimensions = len(self._model.encode("warm", show_progress_bar=False))

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        model: Any = self._model
        encode = {"query": model.encode_query, "passage": model.encode_document, None: model.encode}
        cut = [text[: self._length * CHARS_PER_TOKEN] for text in texts]
        read = model.tokenizer(cut, truncation=True, max_length=self._length)["input_ids"]
        vectors: Any = encode[input_type](
            cut,
            batch_size=max(1, _ROWS * MAX_TOKENS // max(map(len, read))),
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
    return files_digest(
        sorted(path for path in folder.rglob("*") if path.suffix in {".safetensors", ".json"})
    )


def load(settings: EvaluatorSettings) -> TextEmbedder:
    """The embedder of the settings. Raises WeightsError."""
    assert settings.embedder is not None
    return SentenceEmbedder(settings.embedder, settings)
