"""Evaluation of a scorer: gold passages against nearest neighbours, beside BM25 and others.

A contest is one question with its gold passage and the passages it must be told from; every
scorer sees the same contests. Intervals come from a bootstrap over questions.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata  # type: ignore[import-untyped]

from evaluator.data.hard_negatives import WordNeighbours, terms
from evaluator.data.records import Record, read_file
from evaluator.data.text import contains_answer
from evaluator.errors import DataError

NEGATIVES = 4
DEPTH = 60
"""Neighbours looked through for negatives."""
ROUNDS = 1000
"""Samples of the bootstrap."""

Values = npt.NDArray[np.float64]
Pairs = list[tuple[str, str]]
Score = Callable[[Pairs], list[float]]


@dataclass(frozen=True, slots=True)
class Contest:
    """A question and its passages, gold first."""

    question: str
    passages: tuple[str, ...]

    @property
    def pairs(self) -> Pairs:
        return [(self.question, passage) for passage in self.passages]


def measure(
    file: Path, score: Score, max_questions: int, seed: int, *, cosines: Score | None = None
) -> dict[str, float]:
    """AUC over all pairs, with the evaluator's interval, and how often gold stands first.

    Each question's passage stands against the four BM25-nearest passages of other records
    that hold no answer string. Raises DataError where the file has no answerable questions.
    """
    records = read_file(file)
    if not any(record.question and record.relevant for record in records):
        raise DataError(f"{file} holds no answerable questions with passages.")
    drawn = contests(records, max_questions, seed)
    if not drawn:
        raise DataError(f"{file} holds too few passages for {NEGATIVES} negatives a question.")
    scores = {"evaluator": scored(score, drawn), "bm25": word_scores(records, drawn)}
    if cosines:
        scores["e5"] = scored(cosines, drawn)
    return compared(drawn, scores, seed)


def contests(records: Sequence[Record], max_questions: int, seed: int) -> list[Contest]:
    """At most `max_questions` answerable questions, drawn by the seed, with hard negatives.

    Other passages that answer the same question are never negatives; a question that finds
    fewer than four negatives is left out.
    """
    passages = list(dict.fromkeys(r.passage for r in records if r.relevant))
    positives: dict[str, set[str]] = defaultdict(set)
    answerable = {}
    for record in records:
        if record.question and record.relevant:
            positives[record.question].add(record.passage)
            answerable[record.question, record.passage] = record
    count = min(max_questions, len(answerable))
    sample = random.Random(seed).sample(list(answerable.values()), count)
    near = WordNeighbours(passages).nearest([record.question for record in sample], DEPTH)
    drawn = []
    for record, numbers in zip(sample, near, strict=True):
        barred = positives[record.question]
        others = [
            passages[i]
            for i in numbers
            if passages[i] not in barred and not contains_answer(passages[i], record.answers)
        ]
        if len(others) >= NEGATIVES:
            drawn.append(Contest(record.question, (record.passage, *others[:NEGATIVES])))
    return drawn


def scored(score: Score, drawn: Sequence[Contest]) -> Values:
    """The scores of all contests' pairs, in order."""
    return np.array(score([pair for contest in drawn for pair in contest.pairs]), dtype=float)


def word_scores(records: Sequence[Record], drawn: Sequence[Contest]) -> Values:
    """BM25 of each pair (k1 1.2, b 0.75) over the records' own passages."""
    passages = list(dict.fromkeys(record.passage for record in records))
    places = {passage: place for place, passage in enumerate(passages)}
    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index([terms(passage) for passage in passages], show_progress=False)
    values: list[float] = []
    for contest in drawn:
        known = [word for word in set(terms(contest.question)) if word in index.vocab_dict]
        scores = index.get_scores(known) if known else np.zeros(len(passages))
        values += [float(scores[places[passage]]) for passage in contest.passages]
    return np.array(values)


def compared(drawn: Sequence[Contest], scores: dict[str, Values], seed: int) -> dict[str, float]:
    """AUC with its 95 % interval and the share of gold placed first, of each scorer."""
    sizes = [len(contest.passages) for contest in drawn]
    labels = [place == 0 for size in sizes for place in range(size)]
    owners = [number for number, size in enumerate(sizes) for _ in range(size)]
    figures: dict[str, float] = {"questions": len(drawn), "pairs": len(labels)}
    for name, values in scores.items():
        auc, low, high = auc_interval(labels, values, owners, seed)
        figures |= {f"auc_{name}": auc, f"auc_{name}_low": low, f"auc_{name}_high": high}
        parts = np.split(values, np.cumsum(sizes)[:-1])
        figures[f"first_{name}"] = float(np.mean([part[0] > part[1:].max() for part in parts]))
    return {name: round(value, 4) for name, value in figures.items()}


def auc_interval(
    labels: Sequence[bool], values: Values, groups: Sequence[Hashable], seed: int
) -> tuple[float, float, float]:
    """AUC and its 95 % interval when whole groups (questions) are drawn anew with the seed.

    Raises DataError where only one class is there.
    """
    truth = np.array(labels, dtype=bool)
    if truth.all() or not truth.any():
        raise DataError("An AUC needs both classes.")
    rows_of: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        rows_of[group].append(row)
    members, rng = [np.array(rows) for rows in rows_of.values()], np.random.default_rng(seed)
    drawn = []
    for _ in range(ROUNDS):
        picks = rng.integers(len(members), size=len(members))
        rows = np.concatenate([members[pick] for pick in picks])
        if truth[rows].any() and not truth[rows].all():
            drawn.append(_auc(truth[rows], values[rows]))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return _auc(truth, values), float(low), float(high)


def _auc(truth: npt.NDArray[np.bool_], values: Values) -> float:
    """By ranks, ties at their mean: a thousand of scikit-learn's take half a minute."""
    positives = int(truth.sum())
    above = rankdata(values)[truth].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(truth) - positives)))
