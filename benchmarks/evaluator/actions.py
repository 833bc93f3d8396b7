"""Actions: what the thresholds make of questions asked of an index, half of them without gold.

The retriever is the service's own with its default weights, its index fresh, every passage one
chunk, and passages are graded as the service grades them, `title // text`.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from app.ingest.rows import document_id
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from benchmarks.evaluator.ratchet import digits
from benchmarks.evaluator.relevance import (
    HELD_BACK_PERCENT,
    TESTS,
    Bench,
    Grade,
    file_of,
    interval,
)
from benchmarks.report import Figures, rows_of
from benchmarks.retrieval.base import indexed
from evaluator.calibration.evaluate import Values, auc_interval
from evaluator.calibration.thresholds import Aims, GradedQuestions, action_figures, sweep
from evaluator.data.calibration_questions import build_questions
from evaluator.data.records import Record, split
from evaluator.data.text import contains_answer
from evaluator.schema import CalibratedThresholds
from graphs.grading.strips import evaluator_text
from graphs.text.language import language_of
from graphs.types import Passage

RETRIEVED = 10
Row = dict[str, Any]
DISTRACTORS = {"bench_en_qed": "corpus_en_2wiki", "zh_cmrc2018_dev": "corpus_zh_news"}


@dataclass(frozen=True)
class Asked:
    """A question with what was retrieved for it.

    `has_gold`: its passage is among the retrieved ones; `has_answer`: any of them holds an
    answer string.
    """

    question: str
    passages: Sequence[Passage]
    gold_kept: bool
    has_gold: bool
    has_answer: bool


def on_actions(
    bench: Bench, training: dict[str, list[Record]], thresholds: CalibratedThresholds
) -> Figures:
    """Action accuracy of each test set, at the thresholds and at one cut found on validation."""
    cut = best_cut(bench, training)
    embedder, segmenter = _loaded()
    figures: Figures = {"upper": thresholds.upper, "lower": thresholds.lower, "cut": round(cut, 4)}
    for name in TESTS:
        asked = asyncio.run(retrieved(bench, name, embedder, segmenter))
        best = _best_grades(bench.grade, asked)
        figures[name] = _figures(asked, best, thresholds, cut, bench.seed)
    return figures


def best_cut(bench: Bench, training: dict[str, list[Record]]) -> float:
    """The threshold that alone tells answered from unanswered calibration questions best.

    Those are built from held-back records as `calibrate` builds them; both languages count the
    same.
    """
    records = [record for rows in training.values() for record in rows]
    labelled = build_questions(split(records, HELD_BACK_PERCENT)[1], bench.seed, 2 * bench.most)
    best = list(map(max, bench.grade([(q.question, q.passages) for q in labelled])))
    outcomes = {}
    for language in sorted({question.language for question in labelled}):
        rows = [i for i, question in enumerate(labelled) if question.language == language]
        answered = np.array([any(labelled[i].labels) for i in rows])
        outcomes[language] = GradedQuestions(np.array([best[i] for i in rows]), answered)
    uppers, _ = sweep(outcomes, Aims(ambiguous=1.0))
    return float(uppers[0])


def _loaded() -> tuple[StaticEmbedder, Segmenter]:
    segmenter = Segmenter()
    embedder = StaticEmbedder(segmenter)
    embedder.load()
    return embedder, segmenter


async def retrieved(
    bench: Bench, name: str, embedder: StaticEmbedder, segmenter: Segmenter
) -> list[Asked]:
    """The set's questions, drawn by the seed, with the ten passages found for each.

    Half of the drawn questions' gold passages are not in the index, so a passage that several
    questions share is there for all of them or for none.
    """
    tests = list(rows_of(file_of(bench.data, name)))
    rows = [row for row in tests if contains_answer(row["passage"], row["answers"])]
    dice = random.Random(bench.seed)
    rows = dice.sample(rows, min(bench.most, len(rows)))
    golds = list(dict.fromkeys(row["passage"] for row in rows))
    removed = set(dice.sample(golds, len(golds) // 2))
    others = [row for row in [*tests, *rows_of(file_of(bench.data, DISTRACTORS[name]))]
              if row["passage"] not in removed]  # fmt: skip
    with TemporaryDirectory() as folder:
        titles = {row["passage"]: str(row.get("title") or "").replace("_", " ") for row in others}
        chunks = [chunk_row(passage, title) for passage, title in titles.items()]
        index = await indexed(Path(folder), chunks, embedder, segmenter)
        retriever = HybridRetriever(index, segmenter)
        return [
            _asked(row, await retriever.retrieve(row["question"], RETRIEVED), removed)
            for row in rows
        ]


def chunk_row(passage: str, title: str) -> Row:
    """A row of the index for a passage that is one chunk."""
    key = document_id(passage)
    texts = {"title": title, "text": passage, "heading": "", "source": key, "added_at": ""}
    counts = {"position": 0, "chunks": 1, "bytes": 0}
    names = {"id": key, "document_id": key, "sha256": key, "language": language_of(passage)}
    return {**names, **texts, **counts}


def _asked(row: Row, found: Sequence[Passage], removed: set[str]) -> Asked:
    return Asked(
        question=row["question"],
        passages=found,
        gold_kept=row["passage"] not in removed,
        has_gold=document_id(row["passage"]) in {passage.id for passage in found},
        has_answer=any(contains_answer(passage.text, row["answers"]) for passage in found),
    )


def _best_grades(grade: Grade, asked: Sequence[Asked]) -> Values:
    pools = [(one.question, [evaluator_text(p, True) for p in one.passages]) for one in asked]
    return np.array([max(grades, default=-1.0) for grades in grade(pools)])


def _figures(
    asked: Sequence[Asked],
    best: Values,
    thresholds: CalibratedThresholds,
    cut: float,
    seed: int,
) -> Figures:
    gold = np.array([one.has_gold for one in asked])
    answer = np.array([one.has_answer for one in asked])
    undisputed = gold == answer
    auc, low, high = auc_interval(gold.tolist(), best, range(len(asked)), seed)
    at = (thresholds.upper, thresholds.lower)
    figures: Figures = {
        "gold_kept": float(np.mean([one.gold_kept for one in asked])),
        "gold_found": float(gold[[one.gold_kept for one in asked]].mean()),
        "answer_without_gold": float((answer & ~gold).mean()),
        "auc": auc,
        "auc_low": low,
        "auc_high": high,
        "always_correct": float(gold.mean()),
        "always_incorrect": float(1 - gold.mean()),
        "at_cut": action_figures(GradedQuestions(best, gold), cut, cut)["accuracy"],
        "undisputed": action_figures(GradedQuestions(best[undisputed], gold[undisputed]), *at)[
            "accuracy"
        ],
        "by_answer": action_figures(GradedQuestions(best, answer), *at)["accuracy"],
        **action_figures(GradedQuestions(best, gold), *at),
        **_interval(GradedQuestions(best, gold), at, seed),
    }
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}
    right = np.where(gold, best >= thresholds.upper, best < thresholds.lower)
    spared = ~gold | (best >= thresholds.upper)
    return {**rounded, "outcomes": digits(right), "spared": digits(spared)}


def _interval(graded: GradedQuestions, at: tuple[float, float], seed: int) -> dict[str, float]:
    """95 % of the accuracy when questions are drawn anew."""
    upper, lower = at
    right = np.where(graded.answered, graded.best >= upper, graded.best < lower).astype(float)
    low, high = interval(right, np.random.default_rng(seed))
    return {"accuracy_low": low, "accuracy_high": high}
