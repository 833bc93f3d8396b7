"""Endpoint embedder: any OpenAI-compatible /embeddings, bounded, retried once, with failover."""

import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import openai
from langchain_core.embeddings import Embeddings
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

from app.llm.endpoint import FAILURES, NO_KEY, Endpoint
from app.retrieval.embedder import EmbedderFailed, Vectors, unit
from app.retrieval.hybrid import ENCODER_WEIGHTS

BATCH_PASSAGES = 64
MAX_CONCURRENT = 4
TIMEOUT_S = 15.0
QUERY_TIMEOUT_S = 4.0
"""A question does not wait longer: words alone find passages too."""
REST_S = 5.0
MAX_PAUSE_S = 20.0


@dataclass(frozen=True)
class Address:
    """One endpoint; `failure` puts an exception into words."""

    embeddings: Embeddings
    failure: Callable[[Exception], str] = str
    for_query: dict[str, Any] | None = None  # further arguments of a question's call
    for_passages: dict[str, Any] | None = None
    close: Callable[[], None] = lambda: None

    def vectors(self, texts: Sequence[str], more: dict[str, Any] | None) -> Vectors:
        vectors = self.embeddings.embed_documents(list(texts), **(more or {}))
        return np.asarray(vectors, dtype=np.float32)


class EndpointEmbedder:
    """Any LangChain embeddings behind one address or several, which stand in for each other.

    Passages go in batches of BATCH_PASSAGES, MAX_CONCURRENT at a time; a batch that fails is asked
    once more, of the next address. A question is asked once; when that fails, further questions
    fail at once for REST_S, so that an endpoint that hangs does not hold up every answer.
    """

    crosses_languages = True
    weights = ENCODER_WEIGHTS

    def __init__(
        self,
        addresses: Sequence[Address],
        name: str,
        dimensions: int = 0,
        *,
        prefixes: tuple[str, str] = ("", ""),
    ) -> None:
        """`prefixes` of questions and passages; 0 `dimensions` are asked for by one call.

        Raises EmbedderFailed where they are, and the endpoint does not tell.
        """
        self.name = name
        self._addresses, self._turns = list(addresses), count()
        self._query_prefix, self._passage_prefix = prefixes
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT, "embeddings")
        self._query_pool = ThreadPoolExecutor(MAX_CONCURRENT, "question-embeddings")
        pools = self._pool, self._query_pool
        self._finalizer = weakref.finalize(self, _close, pools, self._addresses)
        self._rests_until, self._rests_for = 0.0, ""
        self.dimensions = dimensions
        if not dimensions:
            self.dimensions = self._width()

    def embed(self, texts: Sequence[str]) -> Vectors:
        prefixed = [self._passage_prefix + text for text in texts]
        parts = [
            self._pool.submit(self._batch, prefixed[start : start + BATCH_PASSAGES])
            for start in range(0, len(prefixed), BATCH_PASSAGES)
        ]
        try:
            batches = [part.result() for part in parts]
        finally:
            for part in parts:  # after a failure the others are of no use
                part.cancel()
        if not batches:
            return np.zeros((0, self.dimensions), np.float32)
        return unit(np.concatenate(batches))

    def embed_query(self, text: str) -> Vectors:
        if time.monotonic() < self._rests_until:
            raise EmbedderFailed(self._rests_for)
        texts = [self._query_prefix + text]
        call = self._query_pool.submit(self._once, self._next(), texts, True)
        try:
            vectors = self._in_time(call)
        except EmbedderFailed as error:
            self._rests_until, self._rests_for = time.monotonic() + REST_S, str(error)
            raise
        question: Vectors = unit(vectors)[0]
        return question

    def close(self) -> None:
        """Gives up what has not begun, and the connections; so does being forgotten."""
        self._finalizer()

    def _width(self) -> int:
        try:
            return int(self._batch(["dimensions"]).shape[1])
        except EmbedderFailed:
            self.close()
            raise

    def _in_time(self, call: Future[Vectors]) -> Vectors:
        try:
            return call.result(QUERY_TIMEOUT_S)
        except NotDone:
            call.cancel()
            raise EmbedderFailed(
                f"The embeddings of the question did not come within {QUERY_TIMEOUT_S:g} s"
            ) from None

    def _next(self) -> Address:
        return self._addresses[next(self._turns) % len(self._addresses)]

    def _batch(self, texts: Sequence[str]) -> Vectors:
        try:
            return self._once(self._next(), texts)
        except EmbedderFailed as error:
            time.sleep(_pause_s(error))
            return self._once(self._next(), texts)

    def _once(self, address: Address, texts: Sequence[str], is_query: bool = False) -> Vectors:
        more = address.for_query if is_query else address.for_passages
        try:
            vectors = address.vectors(texts, more)
        except FAILURES as error:
            raise _Retriable(address.failure(error), _retry_after_s(error)) from None
        wanted = len(texts), self.dimensions or vectors.shape[-1]
        if vectors.shape != wanted or not np.isfinite(vectors).all():
            raise EmbedderFailed(
                f"{self.name} gave vectors of the shape {vectors.shape} where {wanted} was asked"
                " for; check SELFCRAG_EMBEDDER_MODEL and SELFCRAG_EMBEDDER_DIMENSIONS"
            )
        return vectors


def _close(pools: Sequence[ThreadPoolExecutor], addresses: Sequence[Address]) -> None:
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)
    for address in addresses:
        address.close()


class _Retriable(EmbedderFailed):
    """May be over after `pause_s`; negative where asking again brings the same."""

    def __init__(self, message: str, pause_s: float) -> None:
        super().__init__(message)
        self.pause_s = pause_s


def _pause_s(error: EmbedderFailed) -> float:
    """Before the second try; raises the error where none would help."""
    if not isinstance(error, _Retriable) or error.pause_s < 0:
        raise error
    return min(error.pause_s, MAX_PAUSE_S)


def _retry_after_s(error: Exception) -> float:
    """Negative where asking again brings the same."""
    if isinstance(error, openai.APIStatusError):
        if error.status_code < 500 and error.status_code not in {408, 409, 429}:
            return -1.0
        asked = error.response.headers.get("retry-after", "")
        return float(asked) if asked.isdigit() else 0.5
    return 0.2 if isinstance(error, openai.APIConnectionError) else -1.0


def openai_address(
    base_url: str,
    model: str,
    key: str,
    *,
    dimensions: int = 0,
    tells_input_type: bool = False,
) -> Address:
    """An endpoint in OpenAI's form; `tells_input_type` where it is a worker of ours."""
    http = openai.DefaultHttpxClient(timeout=TIMEOUT_S)
    embeddings = OpenAIEmbeddings(
        model=model,
        openai_api_base=base_url,
        openai_api_key=SecretStr(key.strip() or NO_KEY),
        dimensions=dimensions or None,
        # Texts as text: other servers than OpenAI's know nothing of its tokens.
        check_embedding_ctx_length=False,
        request_timeout=TIMEOUT_S,
        max_retries=0,
        http_client=http,
    )
    endpoint = Endpoint(base_url, model, timeout_s=TIMEOUT_S, max_concurrent=1, kind="embeddings")
    kinds = [{"extra_body": {"input_type": kind}} for kind in ("query", "passage")]
    more = kinds if tells_input_type else [None, None]

    def failure(error: Exception) -> str:
        return str(endpoint.failure(error)).rstrip(".")

    return Address(embeddings, failure, more[0], more[1], http.close)
