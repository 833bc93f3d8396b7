"""Image index by an image embedder (CLIP): texts and images are compared by what is seen."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from app.retrieval.embedder import Vectors
from app.retrieval.image_index import UNREADABLE, StoredImages
from app.retrieval.index import IndexUnusable
from graphs.errors import EvaluatorFailed, RetrieverFailed
from graphs.options import Scope, Search
from graphs.types import Image, ImageThresholds, Passage

CLIP_THRESHOLDS = ImageThresholds(text=0.28, image=0.92)
"""A starting point for checkpoints of the first CLIP's kind; each has a scale of its own."""
BATCH_IMAGES, MAX_BATCHES = 16, 8
"""Images read before a search that are new to the embedder; further ones before the next."""


class ImageEncoder(Protocol):
    """One space for texts and images."""

    name: str

    async def embed(self, texts: Sequence[str], images: Sequence[str]) -> Vectors:
        """Unit vectors of the texts, then of images in base64. Raises EvaluatorFailed."""
        ...


class ClipImages:
    """`ports.ImageIndex`: vectors are made when a search first meets an image, and kept."""

    thresholds = CLIP_THRESHOLDS

    def __init__(self, stored: StoredImages, embedder: ImageEncoder) -> None:
        self._stored, self._embedder = stored, embedder
        self._reading = asyncio.Lock()

    async def search(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        scope = (search or Search()).scope  # words and their filters are of no use here
        return await self._nearest([query], [], k, scope)

    async def match(self, image: str, k: int, scope: Scope) -> Sequence[Passage]:
        plain = await self._stored.read(image)
        pixels = b64encode(plain.content).decode()
        return await self._nearest([], [pixels], k, scope, captioned=True)

    async def plain(self, image: str) -> str:
        return await self._stored.plain(image)

    async def images_of(self, passages: Sequence[Passage], scope: Scope) -> Sequence[Image]:
        return await self._stored.images_of(passages, scope)

    async def _nearest(
        self,
        texts: Sequence[str],
        images: Sequence[str],
        k: int,
        scope: Scope,
        *,
        captioned: bool = False,
    ) -> list[Passage]:
        """Raises RetrieverFailed."""
        try:
            await self._read_new()
            (query,) = await self._embedder.embed(texts, images)
            rows = await asyncio.to_thread(self._stored.store.vectors, self._embedder.name, scope)
        except EvaluatorFailed as error:
            raise RetrieverFailed(str(error)) from error
        except IndexUnusable as error:
            raise RetrieverFailed(UNREADABLE) from error
        if not rows:
            return []
        vectors = np.stack([np.frombuffer(vector, np.float32) for _, vector in rows])
        similar = vectors @ query
        best = np.argsort(-similar)[:k]
        hits = [(rows[at][0], float(similar[at])) for at in best]
        return await self._stored.passages_of(hits, scope, captioned=captioned)

    async def _read_new(self) -> None:
        """Raises EvaluatorFailed, IndexUnusable."""
        store, name = self._stored.store, self._embedder.name
        async with self._reading:
            for _ in range(MAX_BATCHES):
                new = await asyncio.to_thread(store.without_vector, name, BATCH_IMAGES)
                if not new:
                    return
                encoded = [b64encode(content).decode() for _, content in new]
                vectors = await self._embedder.embed([], encoded)
                rows = [(key, row.tobytes()) for (key, _), row in zip(new, vectors, strict=True)]
                await asyncio.to_thread(store.keep_vectors, name, rows)
