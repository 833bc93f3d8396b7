"""A cross-encoder as teacher: fine-tuned from MiniLM, asked for probabilities (build time only).

Its weights and its judgements stay in the work folder; students learn from its probabilities.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, BertForSequenceClassification

from evaluator.data.hard_negatives import minilm_folder
from evaluator.errors import WeightsError
from evaluator.inference.pretrained import PairEncoder, asked, folder_digest, load_network
from evaluator.inference.torch_scorer import load_tokenizer
from evaluator.training.finetune import MADE_BY_FILE, FinetuneOptions, Subject, finetune
from evaluator.training.loop import Say

_LONGEST = 512
_KEPT_AT_ONCE = 2048  # pairs; a kill loses the judgements of at most so many


@dataclass(frozen=True)
class TeacherOptions(FinetuneOptions):
    """Values common for a small cross-encoder."""

    learning_rate: float = 5e-5
    warmup_steps: int = 200
    max_length: int = 256


def train_teacher(data: Path, work: Path, options: TeacherOptions, say: Say) -> Path:
    """Fine-tune MiniLM on the English pairs of `data`; returns the folder of its weights.

    They are `work`/teacher; a killed run goes on from `work`.
    """
    return train_from(minilm_folder(), data, work, options, say)


def train_from(bert: Path, data: Path, work: Path, options: TeacherOptions, say: Say) -> Path:
    """The same from another local BERT, which may lack the head."""
    torch.manual_seed(options.seed)
    subject = Subject(
        name="teacher",
        network=load_network(
            BertForSequenceClassification, bert, new=("classifier.", "bert.pooler."), num_labels=1
        ),
        tokenizer=load_tokenizer(bert),
        as_one_text=False,
        negative=0.0,
        loss_of=nn.functional.binary_cross_entropy_with_logits,
        origin={"teacher_of": folder_digest(bert)},
        languages=("en",),
    )
    out = work / "teacher"
    finetune(data, subject, out, work, options, say)
    return out


def teacher_scores(
    folder: Path, pairs: Sequence[tuple[str, str]], work: Path, batch_tokens: int = 8192
) -> list[float]:
    """p(relevant) of each pair by the cross-encoder in `folder`, kept in `work` by its digest.

    One logit counts by its sigmoid, two labels by the second's softmax; a T5 of the paper's
    recipe by its score's place between -1 and 1. Raises WeightsError.
    """
    path = work / f"teacher-{folder_digest(folder)[:16]}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as kept:
        kept.execute("CREATE TABLE IF NOT EXISTS judged (pair BLOB PRIMARY KEY, p REAL NOT NULL)")
        keys = [_key(pair) for pair in pairs]
        known: dict[bytes, float] = dict(kept.execute("SELECT pair, p FROM judged"))
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
        if new:
            for part, probabilities in _judged(folder, list(new.values()), batch_tokens):
                told = dict(zip(map(_key, part), probabilities, strict=True))
                kept.executemany("INSERT OR REPLACE INTO judged VALUES (?, ?)", told.items())
                kept.commit()
                known |= told
    return [known[key] for key in keys]


def _key(pair: tuple[str, str]) -> bytes:
    return sha256(json.dumps(pair).encode()).digest()[:16]


def _judged(
    folder: Path, pairs: Sequence[tuple[str, str]], batch_tokens: int
) -> Iterator[tuple[Sequence[tuple[str, str]], list[float]]]:
    network = load_network(AutoModelForSequenceClassification, folder, new=())
    network.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    is_t5, labels = network.config.model_type == "t5", network.config.num_labels
    if labels > (1 if is_t5 else 2):
        raise WeightsError(f"{folder} has {labels} labels where one or two are needed.")
    length = _trained_length(folder)
    encoder = PairEncoder(load_tokenizer(folder), length, as_one_text=is_t5)
    for start in range(0, len(pairs), _KEPT_AT_ONCE):
        part = pairs[start : start + _KEPT_AT_ONCE]
        logits = asked(network, encoder.rows(part), batch_tokens)
        yield part, _probabilities(logits, is_t5=is_t5)


def _trained_length(folder: Path) -> int:
    """What a teacher of ours was trained with; it saw nothing longer."""
    path = folder / MADE_BY_FILE
    if not path.exists():
        return _LONGEST
    made_by: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return int(made_by["options"]["max_length"])


def _probabilities(logits: Tensor, *, is_t5: bool) -> list[float]:
    if is_t5:
        found = (logits[:, 0].clamp(-1, 1) + 1) / 2
    elif logits.shape[1] == 1:
        found = logits[:, 0].sigmoid()
    else:
        found = logits.softmax(1)[:, 1]
    return [float(p) for p in found]
