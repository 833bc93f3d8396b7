"""E5 embedder: multilingual-e5-small in this process."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from app.resilience.circuit_breaker import CircuitBreaker
from app.retrieval.embedder import E5_WEIGHTS, Vectors


class Encoder(Protocol):
    """The loaded model; `embed` puts e5's prefix before each text and may run in many threads."""

    name: str
    dimensions: int

    def embed(
        self, texts: Sequence[str], input_type: Literal["query", "passage"] | None
    ) -> tuple[Vectors, int]: ...


class E5Embedder:
    """One encoder for passages and questions; a question does not wait behind passages."""

    crosses_languages = True
    weights = E5_WEIGHTS
    circuits: Mapping[str, CircuitBreaker] = {}  # nothing here can be away

    def __init__(self, encoder: Encoder, name: str) -> None:
        self._encoder = encoder
        self.name, self.dimensions = name, encoder.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.embed(texts, "passage")[0]

    async def embed_query(self, text: str) -> Vectors:
        vectors, _ = await asyncio.to_thread(self._encoder.embed, [text], "query")
        question: Vectors = vectors[0]
        return question

    async def aclose(self) -> None:
        """There is nothing to release."""
