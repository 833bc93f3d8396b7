"""Scores with PyTorch, on a GPU or a CPU: our checkpoints and the CRAG authors' form."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoTokenizer, T5ForSequenceClassification

from evaluator.errors import WeightsError
from evaluator.inference.scorer import (
    Row,
    RowScore,
    Scorer,
    check_folder,
    input_length,
    judged,
    known_tasks,
    name_of,
    padded,
)
from evaluator.model import t5 as models
from evaluator.model.text import neutraliser
from evaluator.model.tokenization import PairTokenizer
from evaluator.schema import LABELS, Task, weights_digest
from evaluator.settings import EvaluatorSettings

AUTHORS_MAX_LENGTH = 512


class TorchScorer:
    """A checkpoint of ours; bf16 on a GPU, fp32 on a CPU."""

    def __init__(self, settings: EvaluatorSettings, config: dict[str, Any]) -> None:
        folder = settings.weights
        self.tasks = known_tasks(config)
        self.digest = weights_digest(folder)
        self.name = name_of(str(config.get("architecture")), self.digest)
        length = input_length(settings, int(config["max_length"]))
        self._rows = PairTokenizer.from_folder(folder, length)
        self._device, precision = place(settings)
        self._model = models.load(folder, config).lowered(precision).to(self._device)

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        return self._rows.encode(task, pairs)

    @torch.inference_mode()
    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
        measured = task == "relevance" and not self._model.config.relevance_taught
        logits: Tensor = (self._model.relevance if measured else self._model)(ids, mask)
        return [judged(task, row) for row in logits.float().cpu().numpy()]


class AuthorsScorer:
    """T5ForSequenceClassification with one label: the raw logit is the relevance score."""

    tasks: tuple[Task, ...] = ("relevance",)

    def __init__(self, settings: EvaluatorSettings) -> None:
        folder = settings.weights
        self.digest = weights_digest(folder)
        self.name = name_of(folder.absolute().name, self.digest)
        self._device, precision = place(settings)
        self._model = _authors_model(folder).to(self._device, precision).eval()
        self._tokenizer: Any = load_tokenizer(folder)
        special = {*self._tokenizer.all_special_tokens, *self._tokenizer.get_added_vocab()}
        self._neutral = neutraliser(special)
        self._length = settings.max_length or AUTHORS_MAX_LENGTH

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        del task  # relevance is the only one
        return [self._row(question, passage) for question, passage in pairs]

    def _row(self, question: str, passage: str) -> Row | str:
        if not question.strip() or not passage.strip():
            return "One of the texts holds nothing to read."
        text = f"{self._neutral(question)} [SEP] {self._neutral(passage)}"
        ids = self._tokenizer(text, truncation=True, max_length=self._length).input_ids
        if ids.count(self._tokenizer.eos_token_id) != 1:
            return "The text cannot be told from the model's end token."
        return Row(tuple(ids))

    @torch.inference_mode()
    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        del task
        ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
        logits = self._model(input_ids=ids, attention_mask=mask).logits.float().cpu()
        return [_raw(float(logit)) for logit in logits[:, 0]]


def _raw(logit: float) -> RowScore | str:
    if logit != logit:
        return "The model gave no number for this pair."
    relevant, irrelevant = LABELS["relevance"]
    return RowScore(logit, relevant if logit > 0 else irrelevant, {})


def _authors_model(folder: Path) -> Any:
    model = load_network(T5ForSequenceClassification, folder, "the authors' T5", torch.float32)
    if model.config.num_labels != 1:
        raise WeightsError(f"{folder} has {model.config.num_labels} labels where one is needed.")
    return model


def load_network(form: Any, folder: Path, named: str, precision: torch.dtype) -> Any:
    """The folder's safetensors as `form`, on the CPU. Raises WeightsError where a tensor is
    missing or of another shape."""
    try:
        network, loading = form.from_pretrained(
            folder,
            use_safetensors=True,
            local_files_only=True,
            dtype=precision,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told here, by name, rather than by transformers
        )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise WeightsError(f"{folder} cannot be loaded as {named}: {error}") from error
    missing = sorted(loading["missing_keys"])
    if missing:
        raise WeightsError(f"{folder} lacks the tensors {', '.join(missing[:4])}.")
    _check_shapes(folder, loading["mismatched_keys"])
    return network


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer; WeightsError where it has none that can be read."""
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise WeightsError(f"The tokenizer of {folder} cannot be loaded: {error}") from error


def _check_shapes(
    folder: Path, mismatched: Iterable[tuple[str, Sequence[int], Sequence[int]]]
) -> None:
    for name, stored, asked in sorted(mismatched):
        raise WeightsError(
            f"{folder} does not fit its config.json: {name} has the shape {list(stored)} where "
            f"{list(asked)} is needed."
        )


def place(settings: EvaluatorSettings) -> tuple[torch.device, torch.dtype]:
    """Where to compute and in which precision, as the settings choose."""
    chosen = settings.device
    if chosen == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(chosen)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise WeightsError("SELFCRAG_EVALUATOR_DEVICE asks for a GPU, but none is there.")
    if settings.precision == "auto":
        return device, torch.bfloat16 if device.type == "cuda" else torch.float32
    return device, torch.bfloat16 if settings.precision == "bf16" else torch.float32


def load(settings: EvaluatorSettings) -> Scorer:
    """The configured folder as a scorer, ours or the authors' form by its config."""
    config = check_folder(settings.weights)
    if config.get("architecture") == models.ARCHITECTURE:
        return TorchScorer(settings, config)
    if "T5ForSequenceClassification" in config.get("architectures", []):
        return AuthorsScorer(settings)
    raise WeightsError(
        f"{settings.weights / 'config.json'} describes neither an evaluator of this project nor a "
        "T5ForSequenceClassification."
    )
