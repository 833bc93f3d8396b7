"""Hybrid retriever: full-text and vector search of one index, fused, with the text around hits.

Scores are joined after arXiv 2407.01219, section 3.4; small-to-big and sliding windows are those of
section 3.2.
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.retrieval.embedder import EmbedderFailed, Weights
from app.retrieval.index import STORAGE_ERRORS, Hit, Index, IndexMismatch
from app.retrieval.tokenizer import Segmenter, english_query
from graphs.errors import RetrieverFailed
from graphs.options import DEFAULT_COLLECTION, Scope, Search, SearchMode
from graphs.text.language import script_of
from graphs.types import Language, Passage

TIMEOUT_S = 10.0
# Ranks beyond the first few differ little (reciprocal-rank fusion).
RANKS_FROM = 60
# A passage of several chunks is named by the first and the last of them.
SEVERAL = re.compile(r"(.*)-(\d+)\.\.(\d+)")

log = logging.getLogger(__name__)
Ranked = list[tuple[Hit, float]]


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
            was_renewed = type(error) is IndexMismatch
            raise RetrieverFailed(str(error) if was_renewed else self.index.remedy) from error

    async def ready(self) -> bool:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.index.probe()
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
        language, depth = script_of(query), max(search.depth, k)
        words = await asyncio.to_thread(self._words, query)
        dense, failure = await self._by_meaning(query, language, depth, search)
        lexical: list[Hit] = []
        if search.mode != "dense" or failure is not None:
            lexical = await self.index.search_words(
                words[language], language, depth, search.scope, search.filters
            )
        order, telling = self._fused(lexical, dense, language, search)
        if search.mode != "dense" and len(windows(telling, k)) < k:
            # Nothing more in the question's language: names and terms may stand in the other.
            other: Language = "en" if language == "zh" else "zh"
            more = await self.index.search_words(
                words[other], other, k, search.scope, search.filters
            )
            order = [*telling, *((hit, 0.0) for hit in more), *order] if more else order
        passages = await self._passages(windows(order, k), search.scope)
        if failure is not None:
            raise RetrieverFailed(f"{failure}; found by words alone", passages)
        if not passages and not await self.index.count(search.scope):
            raise RetrieverFailed(self._how_to_fill(search.scope.collection))
        return passages

    def _fused(
        self, lexical: Sequence[Hit], dense: Sequence[Hit], language: Language, search: Search
    ) -> tuple[Ranked, Ranked]:
        """All hits, best first, and those of them that merely fill up left out."""
        words, meaning = ({hit.id: hit.score for hit in hits} for hits in (lexical, dense))
        hits = {hit.id: hit for hit in [*lexical, *dense]}
        if search.fusion == "rrf":
            order = [(hits[key], score) for key, score in by_ranks(words, meaning)]
            return order, order
        weights = weights_of(self.index.embedder.weights[language], search.mode, search.alpha)
        order = [(hits[key], score) for key, score in fuse(words, meaning, weights)]
        # What meaning alone has found fills up where meaning weighs nothing.
        return order, order if weights.dense else [each for each in order if each[0].id in words]

    def _how_to_fill(self, collection: str) -> str:
        where, option = f"the knowledge base in {self.index.folder.parent}", ""
        if collection != DEFAULT_COLLECTION:
            where, option = f"the collection {collection}", f" --collection {collection}"
        return f"{where} is empty: run `selfcrag ingest{option} PATH`"

    async def _by_meaning(
        self, query: str, language: Language, depth: int, search: Search
    ) -> tuple[list[Hit], EmbedderFailed | None]:
        """What stands near the question, and why nothing could be asked where that failed."""
        if search.mode == "bm25":
            return [], None
        try:
            vector = await self.index.embedder.embed_query(query)
        except EmbedderFailed as error:
            log.warning("searching by words alone: %s", error)
            return [], error
        within = None if self.index.embedder.crosses_languages else language
        scope, filters = search.scope, search.filters
        return await self.index.search_vector(vector, within, depth, scope, filters), None

    def _words(self, query: str) -> dict[Language, str]:
        return {"en": english_query(query), "zh": " ".join(self.segmenter.query_words(query))}

    async def _passages(self, chosen: Sequence["Window"], scope: Scope) -> list[Passage]:
        """The windows with their texts; chunks that went since are left out."""
        several = [window.id for window in chosen if window.first != window.last]
        wide = {key for passage_id in several for key in chunk_ids(passage_id)}
        rows = await self.index.columns(sorted(wide), ["lead", "text", "page"], scope)
        passages: list[Passage] = []
        for window in chosen:
            hit = window.hit
            parts = [rows[key] for key in chunk_ids(window.id) if key in rows]
            text = "".join(part["lead"] + part["text"] for part in parts).strip()
            passages.append(
                Passage(
                    id=window.id,
                    text=text or hit.text,
                    title=f"{hit.title} › {hit.heading}" if hit.heading else hit.title,
                    source=hit.source,
                    retrieval_score=window.score,
                    page=parts[0]["page"] if parts else hit.page,
                )
            )
        return passages


def normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Min-max to 0…1; where all are equal every one of them is 1, so a lone hit still counts."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high <= low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def weights_of(own: Weights, mode: SearchMode, alpha: float | None) -> Weights:
    """The embedder's `own`, or `alpha` for BM25 against 1; a mode leaves one of the two scores."""
    match mode:
        case "bm25":
            return Weights(1.0, 0.0)
        case "dense":
            return Weights(0.0, 1.0)
    return own if alpha is None else Weights(alpha, 1.0)


def fuse(
    lexical: Mapping[str, float], dense: Mapping[str, float], weights: Weights
) -> list[tuple[str, float]]:
    """(id, S) over the union of both, best first; a score that is absent counts 0.

    Equal S is ordered by the dense score, then by id: a weight of 0 still orders candidates.
    """
    words, meaning = normalised(lexical), normalised(dense)
    joined = {
        key: weights.lexical * words.get(key, 0.0) + weights.dense * meaning.get(key, 0.0)
        for key in {**words, **meaning}
    }
    return sorted(joined.items(), key=lambda item: (-item[1], -meaning.get(item[0], 0.0), item[0]))


def by_ranks(lexical: Mapping[str, float], dense: Mapping[str, float]) -> list[tuple[str, float]]:
    """(id, score) by reciprocal ranks, best first: the sum of 1 / (60 + rank) over both orders."""
    joined: dict[str, float] = {}
    for scores in (lexical, dense):
        order = sorted(scores, key=lambda key: (-scores[key], key))
        for rank, key in enumerate(order, start=1):
            joined[key] = joined.get(key, 0.0) + 1 / (RANKS_FROM + rank)
    return sorted(joined.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True)
class Window:
    """A found chunk and the positions, `first` to `last`, that are returned with it."""

    hit: Hit
    first: int
    last: int
    score: float

    @property
    def id(self) -> str:
        if self.first == self.last:
            return self.hit.id
        return f"{_version(self.hit)}-{self.first}..{self.last}"


def windows(order: Sequence[tuple[Hit, float]], max_windows: int) -> list[Window]:
    """At most so many, best first; what stands in one already is not returned again.

    So hits of one block become one window of the best hit's score, windows that would overlap
    share their chunks out. Of chunks with equal text and heading, such as an option of several
    manual pages, the best is returned.
    """
    taken: dict[str, set[int]] = {}
    texts: set[tuple[str, str]] = set()
    chosen: list[Window] = []
    for hit, score in order:
        if len(chosen) == max_windows:
            break
        here = taken.setdefault(_version(hit), set())
        own = hit.heading.rpartition(" › ")[2], hit.text
        if hit.position in here or (hit.first == hit.last and own in texts):
            continue
        texts.add(own)
        first = last = hit.position
        while first > hit.first and first - 1 not in here:
            first -= 1
        while last < hit.last and last + 1 not in here:
            last += 1
        here.update(range(first, last + 1))
        chosen.append(Window(hit, first, last, score))
    return chosen


def chunk_ids(passage_id: str) -> list[str]:
    """The chunks of which a passage was put together."""
    several = SEVERAL.fullmatch(passage_id)
    if several is None:
        return [passage_id]
    version, first, last = several.groups()
    return [f"{version}-{position}" for position in range(int(first), int(last) + 1)]


def _version(hit: Hit) -> str:
    """What the chunks of one reading of a document have in common."""
    return hit.id.rpartition("-")[0] or hit.id
