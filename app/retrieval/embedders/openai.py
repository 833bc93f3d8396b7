"""Vectors of an OpenAI-compatible endpoint: bounded, retried once, failing in plain words."""

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
from app.retrieval.embedders.static import EmbedderFailed, Vectors, unit
from app.retrieval.hybrid import ENCODER_WEIGHTS

QUERY_TIMEOUT_S = 4.0
"""A question does not wait longer: words alone find passages too."""
REST_S = 5.0
LONGEST_PAUSE_S = 20.0


@dataclass(frozen=True)
class Address:
    """One endpoint; `failure` puts an exception into words."""

    embeddings: Embeddings
    failure: Callable[[Exception], str] = str
    for_query: dict[str, Any] | None = None  # further arguments of a question's call
    for_passages: dict[str, Any] | None = None
    close: Callable[[], None] = lambda: None

    def vectors(self, texts: Sequence[str], more: dict[str, Any] | None) -> Vectors:
        found = self.embeddings.embed_documents(list(texts), **(more or {}))
        return np.asarray(found, dtype=np.float32)


class EndpointEmbedder:
    """Any LangChain embeddings behind one address or several, which stand in for each other.

    Passages go in batches of `batch`, `max_concurrent` at a time; a batch that fails is asked once
    more, of the next address. A question is asked once; when that fails, further questions fail at
    once for REST_S, so that an endpoint that hangs does not hold up every answer.
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
        batch: int = 64,
        max_concurrent: int = 4,
    ) -> None:
        """`prefixes` of questions and passages; 0 `dimensions` are asked for by one call.

        Raises EmbedderFailed where they are, and the endpoint does not tell.
        """
        self.name = name
        self._addresses, self._turns = list(addresses), count()
        self._query_prefix, self._passage_prefix = prefixes
        self._batch_size = batch
        self._pool = ThreadPoolExecutor(max_concurrent, "embeddings")
        self._asking = ThreadPoolExecutor(max_concurrent, "question-embeddings")
        pools = self._pool, self._asking
        self._finalizer = weakref.finalize(self, _close, pools, self._addresses)
        self._rests_until, self._rests_for = 0.0, ""
        self.dimensions = dimensions
        if not dimensions:
            self.dimensions = self._width()

    def embed(self, texts: Sequence[str]) -> Vectors:
        prefixed = [self._passage_prefix + text for text in texts]
        starts = range(0, len(prefixed), self._batch_size)
        parts = [
            self._pool.submit(self._batch, prefixed[start : start + self._batch_size])
            for start in starts
        ]
        try:
            found = [part.result() for part in parts]
        finally:
            for part in parts:  # after a failure the others are of no use
                part.cancel()
        return unit(np.concatenate(found)) if found else np.zeros((0, self.dimensions), np.float32)

    def embed_query(self, text: str) -> Vectors:
        if time.monotonic() < self._rests_until:
            raise EmbedderFailed(self._rests_for)
        asked = self._asking.submit(self._once, self._next(), [self._query_prefix + text], True)
        try:
            vectors = self._in_time(asked)
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

    def _in_time(self, asked: Future[Vectors]) -> Vectors:
        try:
            return asked.result(QUERY_TIMEOUT_S)
        except NotDone:
            asked.cancel()
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
            raise _Passing(address.failure(error), _retry_after_s(error)) from None
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


class _Passing(EmbedderFailed):
    """May be over after `pause_s`."""

    def __init__(self, message: str, pause_s: float) -> None:
        super().__init__(message)
        self.pause_s = pause_s


def _pause_s(error: EmbedderFailed) -> float:
    """Before the second try; raises the error where none would help."""
    if not isinstance(error, _Passing) or error.pause_s < 0:
        raise error
    return min(error.pause_s, LONGEST_PAUSE_S)


def _retry_after_s(error: Exception) -> float:
    """Negative where asking again brings the same."""
    if isinstance(error, openai.APIStatusError):
        if error.status_code < 500 and error.status_code not in {408, 409, 429}:
            return -1.0
        told = error.response.headers.get("retry-after", "")
        return float(told) if told.isdigit() else 0.5
    return 0.2 if isinstance(error, openai.APIConnectionError) else -1.0


def openai_address(
    base_url: str,
    model: str,
    key: str,
    *,
    dimensions: int = 0,
    timeout_s: float = 15.0,
    tells_input_type: bool = False,
) -> Address:
    """An endpoint in OpenAI's form; `tells_input_type` where it is a worker of ours."""
    http = openai.DefaultHttpxClient(timeout=timeout_s)
    embeddings = OpenAIEmbeddings(
        model=model,
        openai_api_base=base_url,
        openai_api_key=SecretStr(key.strip() or NO_KEY),
        dimensions=dimensions or None,
        # Texts as text: other servers than OpenAI's know nothing of its tokens.
        check_embedding_ctx_length=False,
        request_timeout=timeout_s,
        max_retries=0,
        http_client=http,
    )
    told = Endpoint(base_url, model, timeout_s=timeout_s, max_concurrent=1, kind="embeddings")
    kinds = [{"extra_body": {"input_type": kind}} for kind in ("query", "passage")]
    more = kinds if tells_input_type else [None, None]
    return Address(
        embeddings, lambda error: str(told.failure(error)).rstrip("."), more[0], more[1], http.close
    )
