"""Image index without a model: captions by the words they share, images by their pattern.

Words are weighed by how rare they are. The shipped evaluator is not asked: it grades passages that
answer questions, and told a caption from its near misses no better than chance. Nor are the
embedder's vectors: they take near misses for what is stored before they find what is asked for in
other words (benchmarks/image_measures.md). Patterns know exact and near copies alone, not what is
in a picture.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ParamSpec, Protocol, TypeVar

from app.retrieval.images import IMAGE_KEYWORD, MEDIA_TYPE, ImageStore, PlainImage, StoredImage
from app.retrieval.index import STORAGE_ERRORS, IndexMismatch
from app.retrieval.retriever import HybridRetriever, chunk_ids
from app.retrieval.terms import EMPTY_WORDS, TermTables
from app.retrieval.tokenizer import word_set
from graphs.errors import RetrieverFailed
from graphs.options import Scope, Search
from graphs.text.language import script_of
from graphs.types import Image, ImageThresholds, Passage

LEXICAL_THRESHOLDS = ImageThresholds(text=0.9, image=0.87)
"""Found by benchmarks/images.py: above what was asked for in vain, and above other pictures."""
LEAST_RARITY = 0.1
LOOKED_FOR_S = 5.0
"""At the start, for images in the index: the service does not wait longer."""
# What images are asked for with, beside the words that anything is asked with.
ASKING = word_set(
    "show see look looks like picture pictures image images photo photos photograph illustration"
    " 给 看 看看 图 图片 图像 照片 样子 有没有 展示 显示 张 一张 请 长 怎样"
)
P = ParamSpec("P")
T = TypeVar("T")
ERRORS = (*STORAGE_ERRORS, IndexMismatch)
UNREADABLE = "the images of the knowledge base cannot be read"


class ReadImage(Protocol):
    """Reads an image, a data URL, within bounds. Raises InvalidImage."""

    async def __call__(self, image: str, /) -> PlainImage: ...


class StoredImages:
    """`ports.ImageIndex` over the knowledge base of a retriever."""

    thresholds = LEXICAL_THRESHOLDS

    def __init__(
        self, retriever: HybridRetriever, store: ImageStore, tables: TermTables, read: ReadImage
    ) -> None:
        self._retriever, self.store, self._tables, self.read = retriever, store, tables, read

    async def search(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        chosen = search or Search()
        filters = chosen.filters.model_copy(update={"keywords": [IMAGE_KEYWORD]})
        captions = await self._retriever.retrieve(query, k, replace(chosen, filters=filters))
        return await asyncio.to_thread(self._graded, query, captions)

    async def match(self, image: str, k: int, scope: Scope) -> Sequence[Passage]:
        plain = await self.read(image)
        hits = await self._stored(self.store.nearest, plain.perceptual_hash, k, scope)
        return await self.passages_of(hits, scope, captioned=True)

    async def passages_of(
        self, hits: Sequence[tuple[str, float]], scope: Scope, *, captioned: bool
    ) -> list[Passage]:
        """What images are called, by their ids, with these similarities.

        `captioned`: those alone whose author gave a caption. Raises RetrieverFailed.
        """
        ids = [key for key, _ in hits]
        stored = await self._stored(self.store.of_chunks, ids, scope)
        fit = {image.id for image in stored if image.caption or not captioned}
        try:
            names = ["text", "title", "heading", "source", "page"]
            rows = await self._retriever.index.columns(ids, names, scope)
        except ERRORS as error:
            raise RetrieverFailed(self._retriever.index.remedy) from error
        return [
            Passage(
                id=key,
                text=row["text"],
                title=f"{row['title']} › {row['heading']}" if row["heading"] else row["title"],
                source=row["source"],
                retrieval_score=similarity,
                relevance=similarity,
                page=row["page"],
            )
            for key, similarity in hits
            if key in fit and (row := rows.get(key))
        ]

    async def images_of(self, passages: Sequence[Passage], scope: Scope) -> Sequence[Image]:
        # A strip is named by the passage that it was cut from.
        parts = [(passage, chunk_ids(passage.id.partition("#")[0])) for passage in passages]
        by_chunk = {key: passage for passage, keys in parts for key in keys}
        stored = await self._stored(self.store.of_chunks, list(by_chunk), scope)
        return [_image(it, by_chunk.get(it.id) or by_chunk[it.near or ""]) for it in stored]

    async def plain(self, image: str) -> str:
        read = await self.read(image)
        return f"data:{MEDIA_TYPE};base64,{b64encode(read.content).decode()}"

    async def _stored(
        self, look: Callable[P, list[T]], *given: P.args, **more: P.kwargs
    ) -> list[T]:
        try:
            return await asyncio.to_thread(look, *given, **more)
        except ERRORS as error:
            raise RetrieverFailed(UNREADABLE) from error

    def _graded(self, query: str, captions: Sequence[Passage]) -> list[Passage]:
        shares = [self.coverage(query, f"{passage.title}\n{passage.text}") for passage in captions]
        graded = [replace(it, relevance=share) for it, share in zip(captions, shares, strict=True)]
        return sorted(graded, key=lambda passage: -passage.score)

    def coverage(self, query: str, text: str) -> float:
        """The share of what the query asks for that the text has in words, by their rarity."""
        language = script_of(query)
        weights = {
            term: max(self._tables.rarity(word, language), LEAST_RARITY)
            for term, word in self._tables.terms(query, language)
            if word not in EMPTY_WORDS and word not in ASKING
        }
        held = {term for term, _ in self._tables.terms(text, language)}
        covered = sum(weight for term, weight in weights.items() if term in held)
        return covered / (sum(weights.values()) or 1.0)


async def has_images(retriever: object) -> bool:
    """Whether any chunk of its index stands for an image; False where that cannot be read soon."""
    if not isinstance(retriever, HybridRetriever):
        return False
    try:
        async with asyncio.timeout(LOOKED_FOR_S):
            return await retriever.index.has(IMAGE_KEYWORD)
    except ERRORS:  # a TimeoutError is an OSError
        return False


def _image(stored: StoredImage, passage: Passage) -> Image:
    return Image(
        id=stored.id,
        url=f"/images/{stored.id}",
        caption=stored.caption,
        title=passage.title,
        source=passage.source,
        origin="stored",
        width=stored.width,
        height=stored.height,
    )
