"""Spans: exact match and F1 of the answers found, and the share of unanswerable ones left alone.

Scored as the data sets score them: SQuAD 2.0 without case, articles and punctuation, F1 over words
(Rajpurkar et al., arXiv 1806.03822); CMRC 2018 and DRCD over characters (Cui et al., arXiv
1810.07366).
"""

import random
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.evaluator_relevance import HELD_BACK_PERCENT, Bench, Figures, file_of
from evaluator.data.records import Record, by_article, held_back, read_file
from evaluator.inference.scorer import answer_place, judgement, padded
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.model.tokenization import PairTokenizer
from evaluator.schema import Row, Task

SETS = ("en_squad2_half", "zh_cmrc2018_dev", "zh_drcd")
DRAWS = 1000
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(rf"[{re.escape(string.punctuation)}，。、；：？！“”‘’（）《》「」·\s]")


class Reader:
    """The evaluator by PyTorch: scores, and its span output as text, "" for no answer."""

    def __init__(self, weights: Path) -> None:
        config = check_folder(weights)
        self.network = t5.load(weights, config)
        self._tokenizer = PairTokenizer.from_folder(weights, int(config["max_length"]))

    @torch.inference_mode()
    def scores(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The task's scores, by PyTorch; -1 for a pair that cannot be read."""
        found = [-1.0] * len(pairs)
        for some in self._batches(task, pairs):
            ids, mask = (torch.from_numpy(part) for part in padded([row for _, row in some]))
            logits, _ = self.network(ids, mask)
            for (i, _), own in zip(some, logits.numpy(), strict=True):
                result = judgement(task, own)
                found[i] = -1.0 if isinstance(result, str) else result.score
        return found

    def _batches(
        self, task: Task, pairs: Sequence[tuple[str, str]]
    ) -> Iterator[list[tuple[int, Row]]]:
        """Batches of rows with their places, shortest first."""
        encoded = self._tokenizer.encode(task, pairs)
        kept = [(i, row) for i, row in enumerate(encoded) if isinstance(row, Row)]
        kept.sort(key=lambda each: len(each[1].ids))
        for start in range(0, len(kept), 16):
            yield kept[start : start + 16]

    @torch.inference_mode()
    def answers(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """Each pair's answer."""
        found = [""] * len(pairs)
        for some in self._batches("answer", pairs):
            ids, mask = (torch.from_numpy(part) for part in padded([row for _, row in some]))
            _, spans = self.network(ids, mask)
            for (i, row), own in zip(some, spans.numpy(), strict=True):
                if place := answer_place(row, own):
                    found[i] = pairs[i][1][place.start : place.end]
        return found


def on_spans(bench: Bench, reader: Reader) -> Figures:
    """Figures of each set: held-back articles of those trained on, the whole of the others."""
    figures: Figures = {}
    for name in SETS:
        records = [record for record in read_file(file_of(bench.data, name)) if record.question]
        if name != "zh_cmrc2018_dev":
            records = [r for r in records if held_back(by_article(r), HELD_BACK_PERCENT)]
        records = random.Random(bench.seed).sample(records, min(bench.most, len(records)))
        found = reader.answers([(record.question, record.passage) for record in records])
        figures[name] = scored(records, found, bench.seed)
    return figures


def scored(records: Sequence[Record], found: Sequence[str], seed: int) -> Figures:
    """Exact match and F1 over all rows and over those with an answer; refusals of the others."""
    rows = [
        _row(record.answers if record.relevant else ("",), answer)
        for record, answer in zip(records, found, strict=True)
    ]
    values = np.array(rows)
    answerable = np.array([record.relevant for record in records])
    draws = np.random.default_rng(seed).integers(0, len(rows), (DRAWS, len(rows)))
    low, high = np.quantile(values[draws, 1].mean(1), [0.025, 0.975])
    figures: dict[str, Any] = {
        "rows": len(rows),
        "exact": float(values[:, 0].mean()),
        "f1": float(values[:, 1].mean()),
        "f1_low": float(low),
        "f1_high": float(high),
        "answerable_f1": float(values[answerable, 1].mean()),
    }
    if not answerable.all():
        figures["refused"] = float(values[~answerable, 0].mean())
    return {name: round(value, 4) for name, value in figures.items()}


def _row(golds: Sequence[str], answer: str) -> tuple[float, float]:
    """Exact match and F1 with the best of the gold answers."""
    exact = max(float(_normal(gold) == _normal(answer)) for gold in golds)
    return exact, max(_f1(_units(gold), _units(answer)) for gold in golds)


def _normal(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub(" ", text.casefold())).split())


def _units(text: str) -> list[str]:
    """Words, and each Chinese character by itself."""
    return re.findall(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+", _normal(text))


def _f1(gold: Sequence[str], answer: Sequence[str]) -> float:
    if not gold or not answer:
        return float(gold == answer)
    shared = sum((Counter(gold) & Counter(answer)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(answer), shared / len(gold)
    return 2 * precision * recall / (precision + recall)
