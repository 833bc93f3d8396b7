"""Hybrid retriever: full-text and vector search of one index, joined."""

import asyncio
import logging
from collections.abc import Sequence

from app.retrieval.context_windows import passages, windows
from app.retrieval.embedder import EmbedderFailed
from app.retrieval.hybrid import Weights, by_ranks, fuse, weights_of
from app.retrieval.index import (
    STORAGE_ERRORS,
    Hit,
    Index,
    IndexMismatch,
)
from app.retrieval.tokenizer import Segmenter, english_query
from graphs.errors import RetrieverFailed
from graphs.options import Fusion, Search
from graphs.text.language import script_of
from graphs.types import Language, Passage

# How deep each of the two searches goes at least; what both miss cannot be found.
CANDIDATES = Search().depth
TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class HybridRetriever:
    """Passages of one index, best first."""

    def __init__(self, index: Index, segmenter: Segmenter, timeout_s: float = TIMEOUT_S) -> None:
        self.index = index
        self.segmenter = segmenter
        self._timeout_s = timeout_s

    @property
    def embedder_name(self) -> str:
        return self.index.embedder.name

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._retrieve(query, k, search or Search())
        except TimeoutError as error:
            raise RetrieverFailed(
                f"the knowledge base gave no answer within {self._timeout_s:g} s"
            ) from error
        except (*STORAGE_ERRORS, IndexMismatch) as error:
            log.exception("search in %s failed", self.index.folder)
            raise RetrieverFailed(self.index.remedy) from error

    async def ready(self) -> bool:
        """Whether the index can be read."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.index.count()
        except (*STORAGE_ERRORS, IndexMismatch):  # a TimeoutError is an OSError
            return False
        return True

    async def size(self) -> tuple[int, int] | None:
        """Documents and chunks of all owners; None where they cannot be counted at small cost."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self.index.size()
        except (*STORAGE_ERRORS, IndexMismatch):
            return None

    async def _retrieve(self, query: str, k: int, search: Search) -> list[Passage]:
        language = script_of(query)
        depth = max(search.depth, k)
        words = await asyncio.to_thread(self._words, query)
        lexical, (dense, failure) = await asyncio.gather(
            self._by_words(words[language], language, depth, search),
            self._by_meaning(query, language, depth, search),
        )
        if failure is not None and search.mode == "dense":
            lexical = await self.index.search_words(
                words[language], language, depth, search.filters
            )
        own = self.index.embedder.weights[language]
        weights = weights_of(own, search.mode, search.alpha)
        order = _joined(lexical, dense, weights, search.fusion)
        telling = _telling(order, lexical, weights, search.fusion)
        if search.mode != "dense" and len(windows(telling, k)) < k:
            # Nothing more in the question's language: names and terms may stand in the other.
            other: Language = "en" if language == "zh" else "zh"
            more = await self.index.search_words(words[other], other, k, search.filters)
            order = [*telling, *((hit, 0.0) for hit in more), *order] if more else order
        made = await passages(self.index, windows(order, k))
        if failure is not None:
            raise RetrieverFailed(f"{failure}; found by words alone", made)
        if not made and not await self.index.count():
            raise RetrieverFailed(
                f"the knowledge base in {self.index.folder.parent} is empty:"
                " run `selfcrag ingest PATH`"
            )
        return made

    async def _by_words(
        self, words: str, language: Language, depth: int, search: Search
    ) -> list[Hit]:
        if search.mode == "dense":
            return []
        return await self.index.search_words(words, language, depth, search.filters)

    async def _by_meaning(
        self, query: str, language: Language, depth: int, search: Search
    ) -> tuple[list[Hit], EmbedderFailed | None]:
        """What stands near the question, and why nothing could be asked where that failed."""
        if search.mode == "bm25":
            return [], None
        try:
            vector = await asyncio.to_thread(self.index.embedder.embed_query, query)
        except EmbedderFailed as error:
            log.warning("searching by words alone: %s", error)
            return [], error
        within = None if self.index.embedder.crosses_languages else language
        return await self.index.search_vector(vector, within, depth, search.filters), None

    def _words(self, query: str) -> dict[Language, str]:
        """The query's words for each text column."""
        return {
            "en": english_query(query),
            "zh": " ".join(self.segmenter.query_words(query)),
        }


def _joined(
    lexical: Sequence[Hit], dense: Sequence[Hit], weights: Weights, fusion: Fusion
) -> list[tuple[Hit, float]]:
    hits = {hit.id: hit for hit in [*lexical, *dense]}
    words = {hit.id: hit.score for hit in lexical}
    meaning = {hit.id: hit.score for hit in dense}
    order = by_ranks(words, meaning) if fusion == "rrf" else fuse(words, meaning, weights)
    return [(hits[key], score) for key, score in order]


def _telling(
    order: list[tuple[Hit, float]], lexical: Sequence[Hit], weights: Weights, fusion: Fusion
) -> list[tuple[Hit, float]]:
    """Without those that merely fill up: found by meaning alone where meaning weighs nothing."""
    if fusion == "rrf" or weights.dense:
        return order
    with_words = {hit.id for hit in lexical}
    return [(hit, score) for hit, score in order if hit.id in with_words]
