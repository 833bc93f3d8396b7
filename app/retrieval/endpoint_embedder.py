"""Endpoint embedder: any OpenAI-compatible /embeddings, bounded, retried once, with failover."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import numpy as np
import openai

from app.llm.endpoint import FAILURES, NO_KEY, Endpoint
from app.retrieval.embedder import ENCODER_WEIGHTS, EmbedderFailed, Vectors, unit

BATCH_PASSAGES = 64
MAX_CONCURRENT = 4
TIMEOUT_S = 15.0
QUERY_TIMEOUT_S = 4.0
"""A question does not wait longer: words alone find passages too."""
REST_S = 5.0


class EndpointEmbedder:
    """One model at one address or several, which stand in for each other.

    After a question that failed, others fail at once for REST_S: an endpoint that hangs does not
    hold up every answer.
    """

    crosses_languages = True
    weights = ENCODER_WEIGHTS

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
    ) -> None:
        """`prefixes` of questions and passages; 0 `dimensions` are asked for by one call.

        `tells_input_type` where the endpoint is a worker of ours. Raises EmbedderFailed where the
        endpoint does not tell its dimensions.
        """
        self.name, self._model = name, model
        key = key.strip() or NO_KEY
        self._clients = [
            openai.OpenAI(base_url=url, api_key=key, timeout=TIMEOUT_S, max_retries=1)
            for url in urls
        ]
        self._turns = count()
        self._asked_dimensions = dimensions or openai.omit
        self._query_prefix, self._passage_prefix = prefixes
        self._tells_input_type = tells_input_type
        self._rests_until, self._rests_for = 0.0, ""
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

    def embed_query(self, text: str) -> Vectors:
        if time.monotonic() < self._rests_until:
            raise EmbedderFailed(self._rests_for)
        client = self._clients[next(self._turns) % len(self._clients)]
        hasty = client.with_options(timeout=QUERY_TIMEOUT_S, max_retries=0)
        try:
            vectors = self._vectors(hasty, [self._query_prefix + text], "query")
        except EmbedderFailed as error:
            self._rests_until, self._rests_for = time.monotonic() + REST_S, str(error)
            raise
        question: Vectors = unit(vectors)[0]
        return question

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _batch(self, texts: Sequence[str]) -> Vectors:
        first = next(self._turns) % len(self._clients)
        *others, last = self._clients[first:] + self._clients[:first]
        for client in others:
            with suppress(EmbedderFailed):
                return self._vectors(client, texts)
        return self._vectors(last, texts)

    def _vectors(
        self, client: openai.OpenAI, texts: Sequence[str], input_type: str = "passage"
    ) -> Vectors:
        """Raises EmbedderFailed."""
        try:
            reply = client.embeddings.create(
                model=self._model,
                input=list(texts),
                dimensions=self._asked_dimensions,
                extra_body={"input_type": input_type} if self._tells_input_type else None,
            )
            vectors = np.asarray([item.embedding for item in reply.data], dtype=np.float32)
        except FAILURES as error:
            timeout_s = QUERY_TIMEOUT_S if input_type == "query" else TIMEOUT_S
            endpoint = Endpoint(
                str(client.base_url), self._model,
                timeout_s=timeout_s, max_concurrent=1, kind="embeddings",
            )  # fmt: skip
            raise EmbedderFailed(str(endpoint.failure(error)).rstrip(".")) from None
        wanted = len(texts), self.dimensions or vectors.shape[-1]
        if vectors.shape != wanted or not np.isfinite(vectors).all():
            raise EmbedderFailed(
                f"{self.name} gave vectors of the shape {vectors.shape} where {wanted} was asked"
                " for; check SELFCRAG_EMBEDDER_MODEL and SELFCRAG_EMBEDDER_DIMENSIONS"
            )
        return vectors
