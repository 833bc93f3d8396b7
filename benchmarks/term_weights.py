"""What reordering the retriever's candidates by stored term weights brings, and how it is mixed.

    python -m benchmarks.term_weights DATA [QUESTIONS]

The share of the term weights is told on training questions: one half, divided by passage, to
choose on and the other to confirm. Questions of held-out sets are never read. Figures:
benchmarks/term_weights.md.
"""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.ingest.rows import document_id
from app.retrieval.embedder import TABLE_WEIGHTS, StaticEmbedder
from app.retrieval.retriever import fuse
from app.retrieval.terms import TermTables, lexical_scores, packed, query_terms, term_weights
from app.retrieval.tokenizer import Segmenter
from benchmarks.hybrid_weights import SEED, TUNING, Task, say, searched
from benchmarks.retrieval_table import records

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
MOST_CHARACTERS = 900  # of a passage, so that long articles do not take the night

Asked = tuple[str, str, list[tuple[str, float]]]
"""A question, the id of its passage, and the candidates with their scores."""


async def main(data: Path, questions: int) -> None:
    segmenter = Segmenter()
    embedder = StaticEmbedder(segmenter)
    embedder.load()
    tables = TermTables(segmenter)
    for task in TUNING:
        asked = await candidates(task, data, embedder, segmenter)
        texts = passages(task, data)
        for half, part in zip(("fitted", "confirmed"), halves(asked, questions), strict=True):
            say(f"{task.language}, {half}: {gains(part, texts, task, tables)}")


async def candidates(
    task: Task, data: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> list[Asked]:
    found, gold, _ = await searched(task, data, embedder, segmenter)
    rows = [row for name in task.questions for row in records(data / f"{name}.jsonl.gz")]
    random.Random(SEED).shuffle(rows)  # as `searched` does
    orders = [fuse(*scores, TABLE_WEIGHTS[task.language])[:50] for scores in found]
    return [
        (row["question"], key, order) for row, key, order in zip(rows, gold, orders, strict=False)
    ]


def passages(task: Task, data: Path) -> dict[str, tuple[str, str]]:
    """Title and text by id."""
    names = (*task.questions, *task.distractors)
    rows = [row for name in names for row in records(data / f"{name}.jsonl.gz")]
    return {
        document_id(row["passage"]): (
            row.get("title", "").replace("_", " "),
            row["passage"][:MOST_CHARACTERS],
        )
        for row in rows
    }


def halves(asked: Sequence[Asked], most: int) -> tuple[list[Asked], list[Asked]]:
    """Divided by passage, so that none is on both sides."""
    keys = sorted({key for _, key, _ in asked})
    random.Random(SEED).shuffle(keys)
    first = set(keys[: len(keys) // 2])
    sides = ([one for one in asked if (one[1] in first) is side] for side in (True, False))
    left, right = (side[:most] for side in sides)
    return left, right


def gains(
    asked: Sequence[Asked],
    texts: dict[str, tuple[str, str]],
    task: Task,
    tables: TermTables,
) -> str:
    """nDCG@10 by share, and milliseconds to add up one question's candidates."""
    stored: dict[str, bytes] = {}
    for key in {key for _, _, order in asked for key, _ in order}:
        title, text = texts[key]
        stored[key] = packed(term_weights(title, "", text, task.language, tables))
    ranked: dict[float, list[float]] = {share: [] for share in SHARES}
    took_s = 0.0
    for question, gold, order in asked:
        terms = query_terms(question, task.language, tables)
        started = time.perf_counter()
        lexical = lexical_scores(terms, [stored[key] for key, _ in order])
        took_s += time.perf_counter() - started
        for share in SHARES:
            ranked[share].append(_gain(order, lexical, gold, share))
    figures = ", ".join(f"{share:g}: {np.mean(each):.4f}" for share, each in ranked.items())
    return f"{figures} ({len(asked)} questions, {1000 * took_s / len(asked):.2f} ms each)"


def _gain(
    order: Sequence[tuple[str, float]], lexical: np.ndarray[tuple[int], np.dtype[np.float64]],
    gold: str, share: float,
) -> float:  # fmt: skip
    if not order:
        return 0.0
    hybrid = np.array([score for _, score in order])
    mixed = (1 - share) * _unit(hybrid) + share * _unit(lexical)
    best = [order[place][0] for place in np.argsort(-mixed, kind="stable")[:10]]
    return 1 / float(np.log2(best.index(gold) + 2)) if gold in best else 0.0


def _unit(
    scores: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    spread = float(np.ptp(scores))
    return (scores - scores.min()) / spread if spread else np.zeros_like(scores)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 150))
