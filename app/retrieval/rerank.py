"""The reranker without a model: term weights kept since ingest (TILDE in arXiv 2407.01219)."""

import asyncio
from collections.abc import Sequence

import numpy as np

from app.retrieval.context_windows import chunk_ids
from app.retrieval.embedders.static import StaticEmbedder
from app.retrieval.index import STORAGE_ERRORS, Index, IndexUnusable
from app.retrieval.retriever import HybridRetriever
from app.retrieval.term_rerank import TermTables, joined, lexical_scores, query_terms
from app.retrieval.tokenizer import Segmenter
from graphs.errors import RetrieverFailed
from graphs.text.language import script_of
from graphs.types import Passage


class LexicalReranker:
    """Scores of 0 to 1, joined with those of the retriever; one query of the index a call."""

    def __init__(self, index: Index, segmenter: Segmenter, embedder: StaticEmbedder) -> None:
        self._index = index
        self._tables = TermTables(segmenter, embedder)

    async def rerank(self, question: str, passages: Sequence[Passage]) -> Sequence[float]:
        parts = [chunk_ids(passage.id) for passage in passages]
        try:
            rows = await self._index.columns([key for keys in parts for key in keys], ["terms"])
        except (*STORAGE_ERRORS, IndexUnusable) as error:
            raise RetrieverFailed(self._index.remedy) from error
        stored = [[rows[key]["terms"] for key in keys if key in rows] for keys in parts]
        return await asyncio.to_thread(self._scores, question, passages, stored)

    def _scores(
        self,
        question: str,
        passages: Sequence[Passage],
        stored: Sequence[Sequence[bytes | None]],
    ) -> list[float]:
        """A passage of several chunks is worth its best one."""
        language = script_of(question)
        terms = query_terms(question, language, self._tables)
        flat = lexical_scores(terms, [one for group in stored for one in group])
        at, best = 0, []
        for group in stored:
            best.append(max(flat[at : at + len(group)], default=0.0))
            at += len(group)
        kept = joined([passage.score for passage in passages], np.array(best, float), language)
        return [float(score) for score in kept]


def lexical_reranker(retriever: HybridRetriever) -> LexicalReranker:
    """For the passages of this retriever; its table of words is loaded where none is yet."""
    embedder = retriever.index.embedder
    if not isinstance(embedder, StaticEmbedder):
        embedder = StaticEmbedder(retriever.segmenter)
        embedder.load()
    return LexicalReranker(retriever.index, retriever.segmenter, embedder)
