"""Scores with PyTorch, on a GPU or a CPU: our checkpoints and the CRAG authors' form."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer, T5ForSequenceClassification

from evaluator.errors import WeightsError
from evaluator.inference.scorer import NO_NUMBER, NO_TEXT, Scorer, judgements, padded
from evaluator.model import t5
from evaluator.model.checkpoint import (
    ARCHITECTURE,
    check_folder,
    known_tasks,
    name_of,
    weights_digest,
)
from evaluator.model.tokenization import CHARS_PER_TOKEN, PairTokenizer, neutraliser
from evaluator.schema import LABELS, Row, RowScore, Task
from evaluator.settings import EvaluatorSettings

AUTHORS_MAX_TOKENS = 512
_ENCODED_AT_ONCE = 1024


class TorchScorer:
    """A checkpoint of ours; bf16 on a GPU, fp32 on a CPU."""

    def __init__(self, settings: EvaluatorSettings, config: dict[str, Any]) -> None:
        folder = settings.weights
        self.tasks = known_tasks(config)
        self.digest = weights_digest(folder)
        self.name = name_of(str(config.get("architecture")), self.digest)
        self._tokenizer = PairTokenizer.from_folder(folder, int(config["max_length"]))
        self._device, precision = place(settings)
        network: t5.EvaluatorModel = t5.load(folder, config)
        self.network = network.to(self._device, precision)

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        return self._tokenizer.encode(task, pairs)

    @torch.inference_mode()
    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
        logits, spans = (part.float().cpu().numpy() for part in self.network(ids, mask))
        return judgements(task, rows, logits, spans)


class AuthorsScorer:
    """T5ForSequenceClassification with one label: the raw logit is the relevance score."""

    tasks: tuple[Task, ...] = ("relevance",)

    def __init__(self, settings: EvaluatorSettings) -> None:
        folder = settings.weights
        self.digest = weights_digest(folder)
        self.name = name_of(folder.absolute().name, self.digest)
        self._device, precision = place(settings)
        network = load_network(T5ForSequenceClassification, folder, "the authors' T5")
        if network.config.num_labels != 1:
            raise WeightsError(
                f"{folder} has {network.config.num_labels} labels where one is needed."
            )
        self._network = network.to(self._device, precision).eval()
        self._tokenizer = T5PairTokenizer(load_tokenizer(folder), AUTHORS_MAX_TOKENS)

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        del task  # relevance is the only one
        return self._tokenizer.encode(pairs)

    @torch.inference_mode()
    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        del task
        ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
        logits = self._network(input_ids=ids, attention_mask=mask).logits.float().cpu()
        relevant, irrelevant = LABELS["relevance"]
        return [
            RowScore(logit, relevant if logit > 0 else irrelevant, {})
            if logit == logit
            else NO_NUMBER
            for logit in logits[:, 0].tolist()
        ]


class T5PairTokenizer:
    """Token ids of `question [SEP] passage` for a T5 of transformers' form."""

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = min(max_tokens, tokenizer.model_max_length)
        self._neutral = neutraliser({*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()})

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        """A row a pair, or the reason why it cannot be scored."""
        limit = self._max_tokens * CHARS_PER_TOKEN
        rows: list[Row | str] = []
        for start in range(0, len(pairs), _ENCODED_AT_ONCE):
            part = pairs[start : start + _ENCODED_AT_ONCE]
            texts = [
                f"{self._neutral(question[:limit])} [SEP] {self._neutral(passage[:limit])}"
                for question, passage in part
            ]
            read = self._tokenizer(texts, truncation=True, max_length=self._max_tokens)
            for ids, (question, passage) in zip(read.input_ids, part, strict=True):
                if not question.strip() or not passage.strip():
                    rows.append(NO_TEXT)
                elif ids.count(self._tokenizer.eos_token_id) != 1:
                    rows.append("The text cannot be told from the model's end token.")
                else:
                    rows.append(Row(tuple(ids)))
        return rows


def load_network(
    form: Any,
    folder: Path,
    description: str,
    precision: torch.dtype = torch.float32,
    new: tuple[str, ...] = (),
    **config: Any,
) -> Any:
    """The folder's safetensors as `form`, on the CPU. Raises WeightsError where a tensor is
    missing, unless its name begins with one of `new`, or is of another shape."""
    try:
        network, loading = form.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            dtype=precision,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told here, by name, rather than by transformers
            **config,
        )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise WeightsError(f"{folder} cannot be loaded as {description}: {error}") from error
    missing = sorted(name for name in loading["missing_keys"] if not name.startswith(new or " "))
    if missing:
        raise WeightsError(f"{folder} lacks the tensors {', '.join(missing[:4])}.")
    for name, stored, needed in sorted(loading["mismatched_keys"]):
        raise WeightsError(
            f"{folder} does not fit its config.json: {name} has the shape {list(stored)} where "
            f"{list(needed)} is needed."
        )
    return network


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer; WeightsError where it has none that can be read."""
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        raise WeightsError(f"The tokenizer of {folder} cannot be loaded: {error}") from error


def place(settings: EvaluatorSettings) -> tuple[torch.device, torch.dtype]:
    """Where to compute and in which precision, as the settings choose."""
    name = settings.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise WeightsError("SELFCRAG_EVALUATOR_DEVICE asks for a GPU, but none is there.")
    if settings.precision == "auto":
        return device, torch.bfloat16 if device.type == "cuda" else torch.float32
    return device, torch.bfloat16 if settings.precision == "bf16" else torch.float32


def load(settings: EvaluatorSettings) -> Scorer:
    """The configured folder as a scorer, ours or the authors' form by its config."""
    config = check_folder(settings.weights)
    if config.get("architecture") == ARCHITECTURE:
        return TorchScorer(settings, config)
    if "T5ForSequenceClassification" in config.get("architectures", []):
        return AuthorsScorer(settings)
    raise WeightsError(
        f"{settings.weights / 'config.json'} describes neither an evaluator of this project nor a "
        "T5ForSequenceClassification."
    )
