"""Endpoint embedder: any OpenAI-compatible /embeddings, bounded, with failover.

Passages are asked for from worker threads and retried once; a question within its run's deadline,
through a circuit breaker for each address.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import openai
from openai.types import CreateEmbeddingResponse

from app.llm.endpoint import FAILURES, NO_KEY, Endpoint
from app.resilience.circuit_breaker import CircuitBreaker
from app.resilience.deadline import call_limit
from app.retrieval.embedder import ENCODER_WEIGHTS, EmbedderFailed, Vectors, Weights, unit
from graphs.errors import GeneratorFailed
from graphs.types import Language

BATCH_PASSAGES = 64
MAX_CONCURRENT = 4
TIMEOUT_S = 15.0
WORKER_TIMEOUT_S = 120.0
"""A worker computes on its CPU, one batch after another."""
QUERY_TIMEOUT_S = 4.0
"""A question does not wait longer: words alone find passages too."""
SHARE = 0.5
"""Of what its run has left: grading and writing come after it."""
MAX_QUESTIONS = 32
"""At once, at one address."""


class EndpointEmbedder:
    """One model at one address or several, which stand in for each other.

    Of several, a question is sent to one whose breaker is not open.
    """

    crosses_languages = True

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        key: str,
        *,
        name: str,
        dimensions: int = 0,
        prefixes: tuple[str, str] = ("", ""),
        tells_input_type: bool = False,
        weights: Mapping[Language, Weights] = ENCODER_WEIGHTS,
    ) -> None:
        """`prefixes` of questions and passages; 0 `dimensions` are asked for by one call.

        `tells_input_type` where the endpoint is a worker of ours. Raises EmbedderFailed where the
        endpoint does not tell its dimensions.
        """
        self.name, self._model, self.weights = name, model, weights
        key = key.strip() or NO_KEY
        self._timeout_s = WORKER_TIMEOUT_S if tells_input_type else TIMEOUT_S
        names = ["embedder"] if len(urls) == 1 else [f"embedder_{n + 1}" for n in range(len(urls))]
        self._addresses = [
            _Address(url, model, key, self._timeout_s, dependency)
            for url, dependency in zip(urls, names, strict=True)
        ]
        self._turns = count()
        self._asked_dimensions = dimensions or openai.omit
        self._query_prefix, self._passage_prefix = prefixes
        self._tells_input_type = tells_input_type
        self.dimensions = dimensions
        if not dimensions:
            self.dimensions = int(self._batch(["dimensions"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        prefixed = [self._passage_prefix + text for text in texts]
        starts = range(0, len(prefixed), BATCH_PASSAGES)
        batches = [prefixed[start : start + BATCH_PASSAGES] for start in starts]
        with ThreadPoolExecutor(MAX_CONCURRENT, "embeddings") as pool:
            vectors = list(pool.map(self._batch, batches))  # the first failure cancels the rest
        return unit(np.concatenate([np.zeros((0, self.dimensions), np.float32), *vectors]))

    async def embed_query(self, text: str) -> Vectors:
        address = min(self._in_turn(), key=lambda one: one.endpoint.breaker.openness() == 1)
        limit = call_limit(QUERY_TIMEOUT_S / SHARE).share(SHARE)
        try:
            async with address.endpoint.turn() as call, call.step(limit):
                reply = await address.questions.embeddings.create(
                    **self._request([self._query_prefix + text], "query")
                )
                vectors = _vectors_in(reply)
        except GeneratorFailed as error:
            raise EmbedderFailed(str(error).rstrip(".")) from None
        question: Vectors = unit(self._checked(vectors, 1))[0]
        return question

    @property
    def circuits(self) -> Mapping[str, CircuitBreaker]:
        breakers = [address.endpoint.breaker for address in self._addresses]
        return {breaker.name: breaker for breaker in breakers}

    async def aclose(self) -> None:
        for address in self._addresses:
            address.passages.close()
            await address.questions.close()

    def _in_turn(self) -> list["_Address"]:
        """All addresses, each call's from the next one on."""
        turn = next(self._turns) % len(self._addresses)
        return self._addresses[turn:] + self._addresses[:turn]

    def _batch(self, texts: Sequence[str]) -> Vectors:
        *others, last = self._in_turn()
        for address in others:
            with suppress(EmbedderFailed):
                return self._vectors(address.passages, texts)
        return self._vectors(last.passages, texts)

    def _vectors(self, client: openai.OpenAI, texts: Sequence[str]) -> Vectors:
        """Raises EmbedderFailed."""
        try:
            reply = client.embeddings.create(**self._request(texts, "passage"))
            vectors = _vectors_in(reply)
        except FAILURES as error:
            endpoint = Endpoint(
                str(client.base_url), self._model,
                timeout_s=self._timeout_s, max_concurrent=1, kind="embeddings",
            )  # fmt: skip
            raise EmbedderFailed(str(endpoint.failure(error)).rstrip(".")) from None
        return self._checked(vectors, len(texts))

    def _request(self, texts: Sequence[str], input_type: str) -> dict[str, Any]:
        return {
            "model": self._model,
            "input": list(texts),
            "dimensions": self._asked_dimensions,
            "extra_body": {"input_type": input_type} if self._tells_input_type else None,
        }

    def _checked(self, vectors: Vectors, rows: int) -> Vectors:
        """Raises EmbedderFailed."""
        expected = rows, self.dimensions or vectors.shape[-1]
        if vectors.shape != expected or not np.isfinite(vectors).all():
            raise EmbedderFailed(
                f"{self.name} gave vectors of the shape {vectors.shape} where {expected} was asked"
                " for; check SELFCRAG_EMBEDDER and SELFCRAG_EMBEDDER_DIMENSIONS"
            )
        return vectors


class _Address:
    """Its clients: questions are never sent again, for words alone stand in."""

    def __init__(self, url: str, model: str, key: str, timeout_s: float, dependency: str) -> None:
        self.passages = openai.OpenAI(base_url=url, api_key=key, timeout=timeout_s, max_retries=1)
        timeout = openai.Timeout(QUERY_TIMEOUT_S)
        self.questions = openai.AsyncOpenAI(
            base_url=url, api_key=key, timeout=timeout, max_retries=0
        )
        self.endpoint = Endpoint(
            url, model, timeout_s=QUERY_TIMEOUT_S, max_concurrent=MAX_QUESTIONS, kind="embeddings",
            breaker=CircuitBreaker(dependency), operation="embeddings",
        )  # fmt: skip


def _vectors_in(reply: CreateEmbeddingResponse) -> Vectors:
    return np.asarray([item.embedding for item in reply.data], dtype=np.float32)
