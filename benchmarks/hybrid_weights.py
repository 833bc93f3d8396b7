"""Recall and nDCG of the knowledge base's searches, alone and joined.

    python -m benchmarks.hybrid_weights DATA

The weight of the dense scores is chosen by nDCG@10 on the questions of training sets and reported
on others. Every passage is one chunk; the corpora without questions are distractors. Figures and
what was decided from them: benchmarks/hybrid_weights.md.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.ingest.rows import BATCH_ROWS, document_id, encoded
from app.retrieval.embedder import StaticEmbedder, Weights
from app.retrieval.index import Index, open_index
from app.retrieval.retriever import HybridRetriever, fuse
from app.retrieval.tokenizer import Segmenter, english_query
from benchmarks.retrieval_table import records
from graphs.options import Scope, Search
from graphs.text.language import language_of
from graphs.types import Language

SEED = 0
NOISE = 0.002
DENSE_WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 1 / 0.3)
HEAD = "| order | Recall@5 | Recall@20 | nDCG@10 |\n|---|---|---|---|"
Row = dict[str, Any]
Scores = tuple[dict[str, float], dict[str, float]]


@dataclass(frozen=True)
class Task:
    """Questions whose passage is to be found among all passages of `sets`."""

    name: str
    language: Language
    questions: tuple[str, ...]
    distractors: tuple[str, ...]
    most: int = 1500


TUNING = (
    Task("en_nq_gold", "en", ("en_nq_gold",), ("corpus_en_2wiki",)),
    Task("zh_cmrc2018_train + zh_drcd", "zh", ("zh_cmrc2018_train", "zh_drcd"),
         ("corpus_zh_news",)),
)  # fmt: skip
REPORTED = (
    Task("bench_en_qed", "en", ("bench_en_qed",), ("corpus_en_2wiki",)),
    Task("zh_cmrc2018_dev", "zh", ("zh_cmrc2018_dev",), ("corpus_zh_news",), 4000),
)


async def main(data: Path) -> None:
    segmenter = Segmenter()
    embedder = StaticEmbedder(segmenter)
    embedder.load()
    say(f"table {embedder.name}, {embedder.dimensions} dimensions, seed {SEED}\n")
    for tune, report in zip(TUNING, REPORTED, strict=True):
        found, gold, _ = await searched(tune, data, embedder, segmenter)
        say(f"\n## {tune.name}: {len(gold)} questions (tuning)\n\n{HEAD}")
        best = sweep(found, gold)
        found, gold, took = await searched(report, data, embedder, segmenter)
        say(f"\n## {report.name}: {len(gold)} questions (reported)\n\n{HEAD}")
        tell("BM25", found, gold, Weights(1, 0))
        tell("dense", found, gold, Weights(0, 1))
        tell("0.3 · BM25 + dense", found, gold, Weights(0.3, 1))
        tell(f"BM25 + {best:g} · dense", found, gold, Weights(1, best))
        say(f"\nhybrid, end to end: p50 {np.median(took):.1f} ms, p95 {np.quantile(took, 0.95):.1f}"
            " ms a question\n")  # fmt: skip


async def searched(
    task: Task, data: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> tuple[list[Scores], list[str], list[float]]:
    """Both searches' scores for each question, its passage's id, and milliseconds a question."""
    asked = [row for name in task.questions for row in records(data / f"{name}.jsonl.gz")]
    others = [row for name in task.distractors for row in records(data / f"{name}.jsonl.gz")]
    passages = {row["passage"]: row.get("title", "").replace("_", " ") for row in [*asked, *others]}
    random.Random(SEED).shuffle(asked)
    asked = asked[: task.most]
    with tempfile.TemporaryDirectory() as folder:
        index = await open_index(Path(folder) / "index", embedder)
        started = time.perf_counter()
        rows = [chunk_row(passage, title) for passage, title in passages.items()]
        for at in range(0, len(rows), BATCH_ROWS):
            await index.put(encoded(rows[at : at + BATCH_ROWS], embedder, segmenter))
        await index.tidy()
        say(f"{len(rows)} passages indexed in {time.perf_counter() - started:.0f} s")
        found = [await both(row["question"], task.language, index, segmenter) for row in asked]
        took = await timed([row["question"] for row in asked[:300]], index, segmenter)
    return found, [document_id(row["passage"]) for row in asked], took


def chunk_row(passage: str, title: str) -> Row:
    key = document_id(passage)
    empty = {"heading": "", "source": key, "sha256": key, "added_at": ""}
    counts = {"position": 0, "chunks": 1, "bytes": 0}
    return {
        "id": key,
        "document_id": key,
        "title": title,
        "text": passage,
        "language": language_of(passage),
        **empty,
        **counts,
    }


async def both(question: str, language: Language, index: Index, segmenter: Segmenter) -> Scores:
    words = english_query(question)
    if language == "zh":
        words = " ".join(segmenter.query_words(question))
    lexical = await index.search_words(words, language, Search().depth, Scope())
    vector = index.embedder.embed([question])[0]
    dense = await index.search_vector(vector, language, Search().depth, Scope())
    return {hit.id: hit.score for hit in lexical}, {hit.id: hit.score for hit in dense}


async def timed(questions: Sequence[str], index: Index, segmenter: Segmenter) -> list[float]:
    retriever = HybridRetriever(index, segmenter)
    took = []
    for question in questions:
        started = time.perf_counter()
        await retriever.retrieve(question, 10)
        took.append(1000 * (time.perf_counter() - started))
    return took


def sweep(found: Sequence[Scores], gold: Sequence[str]) -> float:
    """The smallest dense weight within NOISE of the best nDCG@10; BM25's is 1."""
    figures = {
        dense: tell(f"BM25 + {dense:.2f} · dense", found, gold, Weights(1, dense))
        for dense in DENSE_WEIGHTS
    }
    say("")
    return min(dense for dense in figures if figures[dense] >= max(figures.values()) - NOISE)


def tell(name: str, found: Sequence[Scores], gold: Sequence[str], weights: Weights) -> float:
    orders = [[key for key, _ in fuse(*scores, weights)] for scores in found]
    ranks = [
        order.index(key) if key in order else sys.maxsize
        for order, key in zip(orders, gold, strict=True)
    ]
    gain = float(np.mean([1 / np.log2(rank + 2) if rank < 10 else 0.0 for rank in ranks]))
    five, twenty = (float(np.mean([rank < k for rank in ranks])) for k in (5, 20))
    say(f"| {name} | {five:.3f} | {twenty:.3f} | {gain:.3f} |")
    return gain


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
