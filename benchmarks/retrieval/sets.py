"""Questions whose passage is known, the passages among which it is to be found, and the measures.

Every search is judged by documents: chunks of one passage count once, at the rank of the first.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.report import rows_of
from graphs.types import Language

SEED = 0
DEPTH = 20
Figures = dict[str, float]


@dataclass(frozen=True)
class Task:
    """Questions of the sets `questions`, to be answered from all passages of `distractors`, too."""

    name: str
    language: Language
    questions: tuple[str, ...]
    distractors: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    """Of a manual's entries, those whose heading is a question of its own; all are passages."""
    by_users: bool = False
    """Whether entries are asked about in users' own words instead (user_questions.jsonl)."""


REPORTED = (
    Task("bench_en_qed", "en", ("bench_en_qed",), ("corpus_en_2wiki",)),
    Task("zh_cmrc2018_dev", "zh", ("zh_cmrc2018_dev",), ("corpus_zh_news",)),
)
MANUALS = (
    Task("manuals_en", "en", (), ("manual_held",), ("faq", "option")),
    Task("manuals_zh", "zh", (), ("manual_held",), ("faq", "option")),
    Task("users_en", "en", (), ("manual_held",), by_users=True),
    Task("users_zh", "zh", (), ("manual_held",), by_users=True),
)
"""Of DATA/manual_held.jsonl.gz, which `python -m evaluator.data.manuals` writes."""


@dataclass(frozen=True)
class Material:
    """`passages` are (key, title, text); `asked` are (question, key of its passage)."""

    task: Task
    passages: tuple[tuple[str, str, str], ...]
    asked: tuple[tuple[str, str], ...]

    def among(self, distractors: int | None) -> "Material":
        """With so many of the passages that no question is for."""
        gold = {key for _, key in self.asked}
        others = [passage for passage in self.passages if passage[0] not in gold]
        own = tuple(passage for passage in self.passages if passage[0] in gold)
        return replace(self, passages=(*own, *others[:distractors]))

    def some(self, most: int) -> tuple[tuple[str, str], ...]:
        """The same questions for everyone who asks for as many."""
        return self.asked[:most]


def material(task: Task, data: Path) -> Material:
    """Questions in an order that depends on the seed alone."""
    asked = [row for name in task.questions for row in rows_of(data / f"{name}.jsonl.gz")]
    others = [row for name in task.distractors for row in rows_of(data / f"{name}.jsonl.gz")]
    if not task.questions:
        others = [
            row | {"passage": row["answer"]} for row in others if row["language"] == task.language
        ]
        asked = [row for row in others if row["kind"] in task.kinds]
        if task.by_users:
            # In Traditional Chinese stands what the Simplified says, on pages of their own.
            others = [row for row in others if not re.search("zh.tw", row["id"], re.IGNORECASE)]
            asked = [row | {"question": row["user_question"]} for row in others]
            asked = [row for row in asked if row["question"]]
    titles = {row["passage"]: row.get("title", "").replace("_", " ") for row in [*asked, *others]}
    keys = {passage: f"{task.language}{n}" for n, passage in enumerate(titles)}
    random.Random(SEED).shuffle(asked)
    return Material(
        task,
        tuple((keys[passage], title, passage) for passage, title in titles.items()),
        tuple((row["question"], keys[row["passage"]]) for row in asked),
    )


def documents(keys: Iterable[str]) -> list[str]:
    """The first DEPTH different ones, in order."""
    return list(dict.fromkeys(keys))[:DEPTH]


def measured(orders: Sequence[Sequence[str]], gold: Sequence[str]) -> Figures:
    """Recall at 5 and 20 and nDCG at 10, of one relevant document a question."""
    ranks = np.array(
        [
            order.index(key) if key in order else DEPTH
            for order, key in zip(orders, gold, strict=True)
        ]
    )
    gains = np.where(ranks < 10, 1 / np.log2(ranks + 2), 0.0)
    return {
        "recall@5": float(np.mean(ranks < 5)),
        "recall@20": float(np.mean(ranks < DEPTH)),
        "ndcg@10": float(np.mean(gains)),
    }


def gains(orders: Sequence[Sequence[str]], gold: Sequence[str]) -> list[float]:
    """nDCG at 10 of each question, for comparing two searches question by question."""
    return [measured([order], [key])["ndcg@10"] for order, key in zip(orders, gold, strict=True)]


def ahead_by(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """95 % of the mean difference, by bootstrap over the questions."""
    difference = np.array(ours) - np.array(theirs)
    drawn = np.random.default_rng(SEED).integers(0, len(difference), (2000, len(difference)))
    low, high = np.quantile(difference[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
