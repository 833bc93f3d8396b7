"""Builds a knowledge base of a benchmark's passages and asks it, by the service's own code."""

import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from app.ingest.chunker import DEFAULT_CHUNKING, Chunking
from app.ingest.loaders.document import LoadedDocument
from app.ingest.loaders.markup import text_blocks
from app.ingest.rows import BATCH_ROWS, document_rows, encoded
from app.retrieval.embedder import Embedder
from app.retrieval.index import Index, open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from benchmarks.report import Figures
from benchmarks.retrieval.sets import DEPTH, Material, documents, gains, measured
from graphs.options import Search
from graphs.types import Passage

# Chunks of one passage count once, so more are asked for than are counted.
CHUNKS = 2 * DEPTH
Asking = Callable[[str], Awaitable[Sequence[Passage]]]


async def indexed(
    folder: Path, rows: Sequence[dict[str, Any]], embedder: Embedder, segmenter: Segmenter
) -> Index:
    index = await open_index(folder / "index", embedder)
    for at in range(0, len(rows), BATCH_ROWS):
        await index.put(encoded(rows[at : at + BATCH_ROWS], embedder, segmenter))
    await index.tidy()
    return index


@asynccontextmanager
async def knowledge_base(
    found: Material, embedder: Embedder, segmenter: Segmenter, chunking: Chunking = DEFAULT_CHUNKING
) -> AsyncIterator[tuple[HybridRetriever, float]]:
    """A retriever over the material's passages, and the seconds its index took."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        rows = list[dict[str, Any]]()
        for key, title, text in found.passages:
            document = LoadedDocument(title, text_blocks(text), key, len(text))
            rows += document_rows(key, key, document, chunking=chunking)
        index = await indexed(Path(folder), rows, embedder, segmenter)
        yield HybridRetriever(index, segmenter), time.perf_counter() - started


async def told(asking: Asking, asked: Sequence[tuple[str, str]]) -> Figures:
    """The measures over the questions, each question's gain, and milliseconds a question."""
    orders, took_ms = [], []
    for question, _ in asked:
        started = time.perf_counter()
        passages = await asking(question)
        took_ms.append(1000 * (time.perf_counter() - started))
        orders.append(documents(passage.source for passage in passages))
    return summary(orders, took_ms, [key for _, key in asked])


def summary(
    orders: Sequence[Sequence[str]], took_ms: Sequence[float], gold: Sequence[str]
) -> Figures:
    return {
        **measured(orders, gold),
        "p50_ms": float(np.median(took_ms)),
        "p95_ms": float(np.quantile(took_ms, 0.95)),
        "gains": gains(orders, gold),
    }


def by_search(retriever: HybridRetriever, search: Search, k: int = CHUNKS) -> Asking:
    return lambda question: retriever.retrieve(question, k, search)
