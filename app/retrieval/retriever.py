"""The retriever of the graphs: words and meaning, joined."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from app.retrieval.embed import Embedder, StaticEmbedder, Vectors
from app.retrieval.hybrid import WEIGHTS, Weights, fuse
from app.retrieval.index import STORAGE_ERRORS, Hit, Index, StoredDocument, make_folder
from app.retrieval.segment import Segmenter, english_query
from graphs.errors import RetrieverFailed
from graphs.search import Search
from graphs.text import language_of
from graphs.types import Language, Passage

# How deep each of the two searches goes; what both miss cannot be found.
CANDIDATES = 50
TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class HybridRetriever:
    """Passages of one index, best first."""

    def __init__(self, index: Index, segmenter: Segmenter, timeout_s: float = TIMEOUT_S) -> None:
        self.index = index
        self.segmenter = segmenter
        self._timeout_s = timeout_s

    @classmethod
    async def open(cls, data_dir: Path, embedder: Embedder | None = None) -> "HybridRetriever":
        """The knowledge base in `data_dir`, warm; the shipped table embeds unless told otherwise.

        Raises IndexMismatch where another embedder wrote the index, IndexUnusable where it is
        damaged or the folder cannot be.
        """
        await asyncio.to_thread(make_folder, data_dir)
        segmenter = Segmenter(data_dir / "cache")
        await asyncio.to_thread(segmenter.load)
        if embedder is None:
            embedder = StaticEmbedder(segmenter)
            await asyncio.to_thread(embedder.load)
        return cls(await Index.open(data_dir / "index", embedder), segmenter)

    @property
    def embedder_name(self) -> str:
        return self.index.embedder.name

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._retrieve(query, k)
        except TimeoutError as error:
            raise RetrieverFailed(
                f"the knowledge base gave no answer within {self._timeout_s:g} s"
            ) from error
        except STORAGE_ERRORS as error:
            log.exception("search in %s failed", self.index.folder)
            raise RetrieverFailed(self._remedy()) from error

    async def ready(self) -> bool:
        """Whether the index can be read."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.index.count()
        except STORAGE_ERRORS:  # a TimeoutError is an OSError
            return False
        return True

    async def documents(self) -> list[StoredDocument]:
        """Every document with its number of chunks, ordered by source."""
        return await self.index.documents()

    async def delete(self, document_id: str) -> bool:
        """Removes a document; False where there is none of that id."""
        return await self.index.delete([document_id]) > 0

    async def _retrieve(self, query: str, k: int) -> list[Passage]:
        language = language_of(query)
        weights, depth = WEIGHTS[language], max(CANDIDATES, k)
        words, vector = await asyncio.to_thread(self._prepare, query)
        lexical, dense = await asyncio.gather(
            self.index.search_words(words[language], language, depth),
            self.index.search_vector(vector, self._within(language), depth),
        )
        passages = _joined(lexical, dense, weights)
        if len(passages) < k:
            # Nothing more in the question's language: names and terms may stand in the other.
            other: Language = "en" if language == "zh" else "zh"
            found = await self.index.search_words(words[other], other, k)
            passages += _joined(found, [], Weights(0.0, 0.0))
        if not passages and not await self.index.count():
            raise RetrieverFailed(
                f"the knowledge base in {self.index.folder.parent} is empty:"
                " run `selfcrag ingest PATH`"
            )
        return passages[:k]

    def _remedy(self) -> str:
        folder = self.index.folder
        if self.index.is_lost:
            return f"the index in {folder} is gone: run `selfcrag ingest PATH` to make a new one"
        return (
            f"the index in {folder} cannot be searched; `selfcrag ingest --reindex` renews it, and"
            " where it cannot, delete that folder and run `selfcrag ingest PATH`"
        )

    def _within(self, language: Language) -> Language | None:
        return None if self.index.embedder.crosses_languages else language

    def _prepare(self, query: str) -> tuple[dict[Language, str], Vectors]:
        """The query's words for each text column, and its vector."""
        words: dict[Language, str] = {
            "en": english_query(query),
            "zh": " ".join(self.segmenter.query_words(query)),
        }
        return words, self.index.embedder.embed([query])[0]


def _joined(lexical: Sequence[Hit], dense: Sequence[Hit], weights: Weights) -> list[Passage]:
    hits = {hit.id: hit for hit in [*lexical, *dense]}
    order = fuse(
        {hit.id: hit.score for hit in lexical}, {hit.id: hit.score for hit in dense}, weights
    )
    return [_passage(hits[key], score) for key, score in order]


def _passage(hit: Hit, score: float) -> Passage:
    title = f"{hit.title} › {hit.heading}" if hit.heading else hit.title
    return Passage(id=hit.id, text=hit.text, title=title, source=hit.source, score=score)
