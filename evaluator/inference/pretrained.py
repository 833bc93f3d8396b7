"""Pre-trained transformers that read a pair of texts: loaded, fed, asked.

Folders are local and hold safetensors; nothing is fetched and no pickle is opened.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers.utils import logging as transformers_log

from evaluator.data.relevance_pairs import Pair
from evaluator.errors import WeightsError
from evaluator.model.text import neutraliser
from evaluator.training.loop import cut

_ENCODED_AT_ONCE = 1024
_MOST_UNKNOWN = 0.1  # of a row's tokens: T5 knows no Chinese, and rows of <unk> teach nothing
_CHARS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair as token ids; `types` tell its two texts apart where the model wants that."""

    ids: tuple[int, ...]
    types: tuple[int, ...] = ()
    target: float = 0.0
    source: str = ""


def folder_digest(folder: Path) -> str:
    """SHA-256 over the folder's tensors, config and tokenizer; WeightsError without tensors."""
    files = [*sorted(folder.glob("*.safetensors")), *sorted(folder.glob("*.json"))]
    if not any(path.suffix == ".safetensors" for path in files):
        raise WeightsError(f"{folder} holds no *.safetensors.")
    found = hashlib.sha256()
    for path in [*files, *sorted(folder.glob("*.model")), *sorted(folder.glob("vocab.txt"))]:
        with path.open("rb") as content:
            found.update(path.name.encode() + hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


def load_network(form: Any, folder: Path, new: tuple[str, ...], **config: Any) -> Any:
    """The folder as `form` in float32; only tensors whose names begin with `new` may be missing.

    Those are drawn by PyTorch's dice. Raises WeightsError.
    """
    said = transformers_log.get_verbosity()
    transformers_log.set_verbosity(logging.ERROR)  # a new head is meant, no fault
    try:
        network, loading = form.from_pretrained(
            folder, use_safetensors=True, local_files_only=True, dtype=torch.float32,
            output_loading_info=True, **config,
        )  # fmt: skip
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise WeightsError(f"{folder} cannot be loaded as {form.__name__}: {error}") from error
    finally:
        transformers_log.set_verbosity(said)
    missing = sorted(name for name in loading["missing_keys"] if not name.startswith(new))
    if missing:
        raise WeightsError(f"The tensors of {folder} lack {', '.join(missing[:4])}.")
    return network


class PairEncoder:
    """Token ids of pairs: two texts to a cross-encoder, `question [SEP] passage` to a T5."""

    def __init__(self, tokenizer: Any, max_length: int, *, as_one_text: bool) -> None:
        self._tokenizer, self._as_one_text = tokenizer, as_one_text
        self._length = min(max_length, tokenizer.model_max_length)
        self._neutral = neutraliser({*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()})

    def rows(self, pairs: Sequence[tuple[str, str]]) -> list[PairRow]:
        """A row a pair, in order; the longer text is cut until both fit."""
        found: list[PairRow] = []
        for start in range(0, len(pairs), _ENCODED_AT_ONCE):
            found += self._part(pairs[start : start + _ENCODED_AT_ONCE])
        return found

    def _part(self, pairs: Sequence[tuple[str, str]]) -> list[PairRow]:
        limit = self._length * _CHARS_PER_TOKEN
        first = [self._neutral(question[:limit]) for question, _ in pairs]
        second = [self._neutral(passage[:limit]) for _, passage in pairs]
        if self._as_one_text:
            texts = [[f"{q} [SEP] {p}" for q, p in zip(first, second, strict=True)]]
        else:
            texts = [first, second]
        options = {"return_token_type_ids": False} if self._as_one_text else {}
        read = self._tokenizer(*texts, truncation=True, max_length=self._length, **options)
        types = read.get("token_type_ids") or [()] * len(pairs)
        return [PairRow(tuple(i), tuple(t)) for i, t in zip(read["input_ids"], types, strict=True)]

    def examples(self, pairs: Sequence[Pair], negative: float) -> list[PairRow]:
        """The pairs the tokenizer can read, with target 1 or `negative`."""
        rows = self.rows([(pair.question, pair.passage) for pair in pairs])
        return [
            PairRow(row.ids, row.types, 1.0 if pair.relevant else negative, pair.source)
            for row, pair in zip(rows, pairs, strict=True)
            if self._is_readable(row)
        ]

    def _is_readable(self, row: PairRow) -> bool:
        if self._as_one_text and row.ids.count(self._tokenizer.eos_token_id) != 1:
            return False
        return row.ids.count(self._tokenizer.unk_token_id) <= _MOST_UNKNOWN * len(row.ids)


def logits_of(network: nn.Module, rows: Sequence[PairRow]) -> Tensor:
    """Of one padded batch, shape (rows, labels), in float32 on the network's device."""
    device = next(network.parameters()).device
    ids = _padded([row.ids for row in rows], int(getattr(network.config, "pad_token_id", 0) or 0))
    mask = _padded([(1,) * len(row.ids) for row in rows], 0)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if rows[0].types:
        inputs["token_type_ids"] = _padded([row.types for row in rows], 0)
    moved = {name: value.to(device, non_blocking=True) for name, value in inputs.items()}
    logits: Tensor = network(**moved).logits
    return logits.float()


def _padded(rows: Sequence[tuple[int, ...]], value: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


@torch.no_grad()
def asked(network: nn.Module, rows: Sequence[PairRow], batch_tokens: int) -> Tensor:
    """Logits of any number of rows, shape (rows, labels), on the CPU, in the rows' order."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number].ids))
    batches = cut([rows[number] for number in order], batch_tokens)
    logits = torch.cat([logits_of(network, batch).cpu() for batch in batches])
    found = torch.empty_like(logits)
    found[torch.tensor(order)] = logits
    return found
