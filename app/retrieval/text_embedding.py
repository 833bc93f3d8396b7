"""Text embedding for callers of their own, by the embedder of the index, in bounded parts."""

import asyncio
from collections.abc import Sequence
from typing import Literal

import numpy as np

from app.retrieval.embedder import Embedder, Vectors
from app.retrieval.retriever import HybridRetriever

AT_ONCE = 64
"""Texts; a small request is embedded between two parts of a large one."""
MAX_CONCURRENT = 2
"""Parts under way: searches of runs have the embedder, too."""

InputType = Literal["passage", "query"]


class TextEmbedding:
    """Embeds in worker threads, as passages of the index or as questions to it."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._turns = asyncio.Semaphore(MAX_CONCURRENT)

    async def embed(self, texts: Sequence[str], kind: InputType = "passage") -> Vectors:
        """One row a text, of length 1, or all zeros where nothing of the text is known.

        Raises EmbedderFailed.
        """
        parts = [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]
        return np.concatenate([await self._part(part, kind) for part in parts])

    async def _part(self, texts: Sequence[str], kind: InputType) -> Vectors:
        async with self._turns:
            if kind == "passage":
                return await asyncio.to_thread(self.embedder.embed, texts)
            return np.stack([await self.embedder.embed_query(text) for text in texts])


def text_embedding_of(retriever: object) -> TextEmbedding | None:
    """By the embedder of the index that `retriever` reads; None where that is not one of ours."""
    if not isinstance(retriever, HybridRetriever):
        return None
    return TextEmbedding(retriever.index.embedder)
