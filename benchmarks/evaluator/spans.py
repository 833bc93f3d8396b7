"""Spans: exact match and F1 of the answers found, and the share of unanswerable ones left alone.

Scored as the data sets score them: SQuAD 2.0 without case, articles and punctuation, F1 over words
(Rajpurkar et al., arXiv 1806.03822); CMRC 2018 and DRCD over characters (Cui et al., arXiv
1810.07366).
"""

import random
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.evaluator.ratchet import digits
from benchmarks.evaluator.relevance import HELD_BACK_PERCENT, Bench, file_of, interval
from benchmarks.report import Figures
from evaluator.data.records import Record, by_article, held_back, read_file
from evaluator.inference.scorer import Scorer, in_batches

SETS = ("en_squad2_half", "zh_cmrc2018_dev", "zh_drcd")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(rf"[{re.escape(string.punctuation)}，。、；：？！“”‘’（）《》「」·\s]")


def on_spans(bench: Bench, scorer: Scorer) -> Figures:
    """Figures of each set: held-back articles of those trained on, the whole of the others."""
    figures: Figures = {}
    for name in SETS:
        records = [record for record in read_file(file_of(bench.data, name)) if record.question]
        if name != "zh_cmrc2018_dev":
            records = [r for r in records if held_back(by_article(r), HELD_BACK_PERCENT)]
        records = random.Random(bench.seed).sample(records, min(bench.most, len(records)))
        found = answers(scorer, [(record.question, record.passage) for record in records])
        figures[name] = scored(records, found, bench.seed)
    return figures


def answers(scorer: Scorer, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """What the span output finds in each passage, "" for nothing."""
    found = in_batches(scorer, "answer", pairs)
    spans = [None if isinstance(result, str) else result.span for result in found]
    return [
        passage[span.start : span.end] if span else ""
        for (_, passage), span in zip(pairs, spans, strict=True)
    ]


def scored(records: Sequence[Record], found: Sequence[str], seed: int) -> Figures:
    """Exact match and F1 over all rows and over those with an answer; refusals of the others."""
    rows = [
        _row(record.answers if record.relevant else ("",), answer)
        for record, answer in zip(records, found, strict=True)
    ]
    values = np.array(rows)
    answerable = np.array([record.relevant for record in records])
    low, high = interval(values[:, 1], np.random.default_rng(seed))
    figures: dict[str, Any] = {
        "rows": len(rows),
        "exact": float(values[:, 0].mean()),
        "f1": float(values[:, 1].mean()),
        "f1_low": low,
        "f1_high": high,
        "answerable_f1": float(values[answerable, 1].mean()),
    }
    if not answerable.all():
        figures["refused"] = float(values[~answerable, 0].mean())
    rounded = {name: round(value, 4) for name, value in figures.items()}
    return {**rounded, "outcomes": digits(values[:, 1])}


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
