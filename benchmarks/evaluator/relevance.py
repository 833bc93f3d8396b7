"""Relevance: gold passages against hard negatives, and what the tests share with the training."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.evaluator.ratchet import digits
from benchmarks.report import Figures, rows_of
from evaluator.calibration.evaluate import (
    NEGATIVES,
    Contest,
    Score,
    Values,
    compared,
    contests,
    scored,
    word_scores,
)
from evaluator.data.file_formats import data_files
from evaluator.data.hard_negatives import WordNeighbours, terms
from evaluator.data.records import Record, read_file, split
from evaluator.data.text import normal_form
from evaluator.errors import DataError
from evaluator.inference.scorer import Scorer, in_batches
from evaluator.schema import PoolWeights, RowScore

TESTS = {"bench_en_qed": "en", "zh_cmrc2018_dev": "zh"}
HELD_BACK_PERCENT = 6
FEWEST, DRAWS = 20, 1000
"""Questions below which a set's figures would say nothing, and draws of a bootstrap."""
SHINGLE, SHARED = 13, 0.5
"""A passage overlaps when half of its runs of 13 words stand in passages of one training set."""

Grade = Callable[[Sequence[tuple[str, Sequence[str]]]], list[list[float]]]
"""Grades of each question's texts among each other, as the service grades what it retrieved."""


@dataclass(frozen=True)
class Bench:
    """What every part of the measurement needs."""

    data: Path
    relevance: Score
    grade: Grade
    cosines: Score | None
    most: int
    seed: int


def in_pools(scorer: Scorer, weights: PoolWeights | None) -> Grade:
    """Grades by a scorer; without weights each text has its own score."""

    def grade(pools: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        pairs = [(question, text) for question, texts in pools for text in texts]
        read = iter(in_batches(scorer, "relevance", pairs))
        return [one([next(read) for _ in texts]) for _, texts in pools]

    def one(read: Sequence[RowScore | str]) -> list[float]:
        scores = [-1.0 if isinstance(each, str) else each.score for each in read]
        near = [None if isinstance(each, str) else each.similarity for each in read]
        graded = weights.grades(scores, near) if weights else scores
        return [-1.0 if score is None else score for score in graded]

    return grade


def interval(values: Values, rng: np.random.Generator) -> tuple[float, float]:
    """95 % of the mean, by a bootstrap over the values."""
    means = rng.choice(values, (DRAWS, len(values))).mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def file_of(data: Path, name: str) -> Path:
    """The set's file, compressed or not; DataError where there is none."""
    for path in (data / f"{name}.jsonl.gz", data / f"{name}.jsonl"):
        if path.exists():
            return path
    raise DataError(f"{data} holds no {name}.jsonl(.gz).")


def training_records(data: Path) -> dict[str, list[Record]]:
    """The records of every file that training may read, by the set's name."""
    return {path.name.split(".")[0]: read_file(path) for path in data_files(data)}


def compare(bench: Bench, records: Sequence[Record], found: Sequence[Contest]) -> Figures:
    """The contests' figures for the evaluator, BM25 and, where given, the untrained encoder."""
    scores = {"evaluator": scored(bench.relevance, found), "bm25": word_scores(records, found)}
    if bench.cosines is not None:
        scores["e5"] = scored(bench.cosines, found)
    sizes = np.cumsum([len(contest.passages) for contest in found])[:-1]
    below = [(own[0] > own[1:]).mean() for own in np.split(scores["evaluator"], sizes)]
    figures = compared(found, scores, bench.seed)
    return {**figures, "outcomes": digits(below), "_scores": scores}


def on_tests(bench: Bench, training: dict[str, list[Record]]) -> tuple[Figures, Figures]:
    """Figures of the sets never trained on, and what of them training has seen."""
    figures, seen = {}, {}
    for name in TESTS:
        records = read_file(file_of(bench.data, name))
        found = contests(records, bench.most, bench.seed)
        figures[name] = compare(bench, records, found)
        scores = figures[name].pop("_scores")
        shared = Seen(records, (r for rows in training.values() for r in rows))
        seen[name] = shared.counts() | _without(bench, found, scores, shared)
    return figures, seen


def _without(
    bench: Bench, found: Sequence[Contest], scores: dict[str, Values], shared: "Seen"
) -> Figures:
    """The same figures over the questions that share nothing with training."""
    kept = [not shared.has(contest) for contest in found]
    clean = [contest for contest, is_kept in zip(found, kept, strict=True) if is_kept]
    if len(clean) < FEWEST or len(clean) == len(found):
        return {"removed": len(found) - len(clean)}
    rows = [is_kept for is_kept in kept for _ in range(1 + NEGATIVES)]
    left = {name: values[rows] for name, values in scores.items()}
    return {"removed": len(found) - len(clean), "without": compared(clean, left, bench.seed)}


class Seen:
    """Which questions and gold passages of a test set occur in training records."""

    def __init__(self, tests: Sequence[Record], training: Iterable[Record]) -> None:
        self._tests = [record for record in tests if record.question and record.relevant]
        shingles = {record.passage: _shingles(record.passage) for record in self._tests}
        wanted = set().union(*shingles.values())
        by_source: dict[str, set[str]] = defaultdict(set)
        self._questions = set[str]()
        for record in training:
            by_source[record.source].add(record.passage)
            if record.question:
                self._questions.add(normal_form(record.question))
        self._passages = {normal_form(text) for found in by_source.values() for text in found}
        self._overlapping = {}
        for source, found in by_source.items():
            met = set().union(*(wanted & _shingles(passage) for passage in found))
            self._overlapping[source] = {
                passage
                for passage, runs in shingles.items()
                if runs and len(runs & met) >= SHARED * len(runs)
            }

    def has(self, contest: Contest) -> bool:
        """Whether the question or its gold passage, equal or overlapping, was seen."""
        return self._has(contest.question, contest.passages[0])

    def _has(self, question: str, passage: str) -> bool:
        return (
            normal_form(question) in self._questions
            or normal_form(passage) in self._passages
            or self._overlaps(passage)
        )

    def _overlaps(self, passage: str) -> bool:
        return any(passage in found for found in self._overlapping.values())

    def counts(self) -> Figures:
        """Questions of the whole test set by what of them was seen, overlaps also by set."""
        pairs = [(record.question, record.passage) for record in self._tests]
        return {
            "questions": len(pairs),
            "question": sum(normal_form(q) in self._questions for q, _ in pairs),
            "passage": sum(normal_form(p) in self._passages for _, p in pairs),
            "overlapping": sum(self._overlaps(p) for _, p in pairs),
            "any": sum(self._has(q, p) for q, p in pairs),
            "files": {
                source: sum(p in found for _, p in pairs)
                for source, found in self._overlapping.items()
                if found
            },
        }


def _shingles(passage: str) -> set[int]:
    words = terms(passage)
    return {hash(tuple(words[at : at + SHINGLE])) for at in range(len(words) - SHINGLE + 1)}


def on_validation(
    bench: Bench, training: dict[str, list[Record]], left_out: Sequence[str]
) -> tuple[Figures, Figures]:
    """Figures of each training set's held-back part, and of whole sets left out of training."""
    if unknown := set(left_out) - set(training):
        raise DataError(f"Not among the training sets: {', '.join(sorted(unknown))}.")
    held: Figures = {}
    out: Figures = {}
    for name, records in training.items():
        part = records if name in left_out else split(records, HELD_BACK_PERCENT)[1]
        if not any(record.question and record.relevant for record in part):
            continue
        found = contests(part, bench.most, bench.seed)
        if len(found) < FEWEST:
            continue
        figures = compare(bench, part, found)
        figures.pop("_scores")
        (out if name in left_out else held)[name] = figures
    return held, out


def on_subjects(bench: Bench, *, whole: bool) -> Figures:
    """PopQA: the subject's page against the nearest pages of the same relation.

    Those pages are negatives by the paper's rule even where they hold an answer string (two
    politicians). `whole` measures the whole set, else its held-back part.
    """
    found, records = [], []
    for pool in _relations(file_of(bench.data, "en_popqa")).values():
        records += pool
        held = pool if whole else split(pool, HELD_BACK_PERCENT)[1]
        passages = list(dict.fromkeys(record.passage for record in pool))
        title = {record.passage: record.title for record in pool}
        near = WordNeighbours(passages).nearest([record.question for record in held], 40)
        for record, numbers in zip(held, near, strict=True):
            others = [passages[i] for i in numbers if title[passages[i]] != record.title]
            if len(others) >= NEGATIVES:
                found.append(Contest(record.question, (record.passage, *others[:NEGATIVES])))
    figures = compare(bench, records, found[: bench.most])
    figures.pop("_scores")
    return figures


def _relations(file: Path) -> dict[str, list[Record]]:
    """The questions and their subjects' pages, by relation."""
    by_relation: dict[str, list[Record]] = defaultdict(list)
    for raw in rows_of(file):
        title = str(raw["title"]).replace("_", " ")
        page = Record("en_popqa", "en", raw["question"], (), True, title, raw["passage"])
        by_relation[raw["prop"]].append(page)
    return by_relation
