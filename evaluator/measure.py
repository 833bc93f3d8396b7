"""Measures a scorer on a set it never saw: gold passages against their nearest neighbours."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.metrics import roc_auc_score

from evaluator.errors import DataError
from evaluator.neighbours import Meaning, WordNeighbours, terms
from evaluator.records import Record, read_file
from evaluator.text import contains_answer

NEGATIVES = 4

Score = Callable[[list[tuple[str, str]]], list[float]]


def measure(file: Path, score: Score, most: int, seed: int, *, minilm: bool) -> dict[str, float]:
    """AUC over all pairs, and how often gold stands first among its negatives.

    Each question's passage stands against the four BM25-nearest passages of other records
    that hold no answer string.
    """
    records = [record for record in read_file(file) if record.question and record.relevant]
    if not records:
        raise DataError(f"{file} holds no answerable questions with passages.")
    pairs, labels = _pairs(records, most, seed)
    scores = {
        "evaluator": np.array(score(pairs)),
        "bm25": _word_scores(records, pairs),
    }
    if minilm:
        scores["minilm"] = _meaning_scores(pairs)
    figures: dict[str, float] = {"questions": sum(labels), "pairs": len(pairs)}
    for name, values in scores.items():
        figures[f"auc_{name}"] = round(float(roc_auc_score(labels, values)), 4)
        by_question = values.reshape(-1, 1 + NEGATIVES)
        first = float((by_question[:, :1] > by_question[:, 1:]).all(axis=1).mean())
        figures[f"first_{name}"] = round(first, 4)
    return figures


def _pairs(
    records: Sequence[Record], most: int, seed: int
) -> tuple[list[tuple[str, str]], list[int]]:
    passages = list(dict.fromkeys(record.passage for record in records))
    asked = random.Random(seed).sample(list(records), min(most, len(records)))
    near = WordNeighbours(passages).nearest([record.question for record in asked], 60)
    pairs: list[tuple[str, str]] = []
    for record, numbers in zip(asked, near, strict=True):
        others = [
            passages[i]
            for i in numbers
            if passages[i] != record.passage
            and not contains_answer(passages[i], list(record.answers))
        ]
        if len(others) >= NEGATIVES:
            texts = [record.passage, *others[:NEGATIVES]]
            pairs += [(record.question, text) for text in texts]
    return pairs, [1, 0, 0, 0, 0] * (len(pairs) // (1 + NEGATIVES))


def _word_scores(
    records: Sequence[Record], pairs: Sequence[tuple[str, str]]
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """BM25 of each pair, idf from the set's own passages."""
    passages = {record.passage for record in records}
    lengths, seen = 0, {}  # type: int, dict[str, int]
    for passage in passages:
        words = terms(passage)
        lengths += len(words)
        for word in set(words):
            seen[word] = seen.get(word, 0) + 1
    mean = lengths / len(passages)
    values = []
    for question, passage in pairs:
        words, value = terms(passage), 0.0
        for word in set(terms(question)):
            often, known = words.count(word), seen.get(word, 0)
            rarity = np.log(1 + (len(passages) - known + 0.5) / (known + 0.5))
            value += rarity * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * len(words) / mean))
        values.append(value)
    return np.array(values)


def _meaning_scores(
    pairs: Sequence[tuple[str, str]],
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    with TemporaryDirectory() as cache:
        meaning = Meaning(Path(cache))
        questions = meaning.vectors([question for question, _ in pairs])
        passages = meaning.vectors([passage for _, passage in pairs])
    cosines: np.ndarray[tuple[int], np.dtype[np.float64]] = (questions * passages).sum(1)
    return cosines
