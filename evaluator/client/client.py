"""The worker's client: one code path in-process (ASGITransport) and over HTTP, one or several."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from evaluator.client.worker_pool import Pool, Worker
from evaluator.errors import (
    EvaluatorError,
    WorkerError,
    WorkerFailed,
    WorkerOverloaded,
    WorkerRefused,
    WorkersDisagree,
    WorkerUnreachable,
)
from evaluator.schema import (
    CompressMethod,
    CompressRequest,
    CompressResponse,
    Ready,
    RowError,
    ScoreRequest,
    ScoreResponse,
    Task,
    Thresholds,
)

__all__ = [
    "EvaluatorClient",
    "EvaluatorError",
    "WorkerError",
    "WorkerFailed",
    "WorkerOverloaded",
    "WorkerRefused",
    "WorkerUnreachable",
    "WorkersDisagree",
]

COMPRESS_S = 120.0
"""A language model on a CPU reads a few hundred tokens a second."""

LEAST_PAIRS = 32
"""Fewer pairs are not worth a request of their own to another worker."""


Told = TypeVar("Told", bound=BaseModel)


class EvaluatorClient:
    """Scores pairs through workers; each httpx client brings an address, transport and timeouts.

    Scoring has no effects, so what a worker failed to score is asked of another, and at last once
    more of all (see Pool). The caller bounds the whole by cancelling.
    """

    def __init__(self, *workers: httpx.AsyncClient, pairs_per_request: int = 256) -> None:
        self._pool = Pool(workers)
        self._pairs_per_request = pairs_per_request

    async def connect(self) -> None:
        """Compares the workers' weights. Raises WorkersDisagree; absent workers are let be."""
        await self._pool.connect()

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> ScoreResponse:
        """Scores in the order of `pairs`, all of the same weights; many are spread over workers.

        No pairs make no request and an empty response. Raises WorkerUnreachable,
        WorkerOverloaded (with retry_after_s), WorkerRefused, WorkerFailed or WorkersDisagree.
        """
        size = self._request_size(len(pairs))
        chunks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        turns = asyncio.Semaphore(len(self._pool))

        async def scored(chunk: Sequence[tuple[str, str]]) -> ScoreResponse:
            async with turns:
                return await self._score_chunk(task, chunk)

        try:
            async with asyncio.TaskGroup() as group:
                parts = [group.create_task(scored(chunk)) for chunk in chunks]
        except ExceptionGroup as failed:
            first = failed.exceptions[0]
            raise first from first.__cause__
        return _joined([part.result() for part in parts])

    async def thresholds(self, *, allow_foreign: bool = False) -> Thresholds:
        """The thresholds beside the workers' checkpoint.

        WorkerRefused (404) if there are none, or none made for it unless `allow_foreign`.
        """
        path = "/thresholds?allow_foreign=true" if allow_foreign else "/thresholds"

        async def thresholds_of(worker: Worker) -> Thresholds:
            self._pool.agree(worker, await worker.model())
            response = await worker.request("GET", path)
            try:
                return Thresholds.model_validate_json(response.content)
            except ValidationError as error:
                raise WorkerFailed(f"The evaluator's thresholds cannot be read: {error}") from error

        return await self._pool.ask(thresholds_of)

    async def compress(
        self, method: CompressMethod, question: str, texts: Sequence[str], ratio: float
    ) -> CompressResponse:
        """A shorter text for each, by one worker's language model; within COMPRESS_S.

        Raises as `score`; WorkerRefused (404) where the workers have none.
        """
        body = CompressRequest(
            method=method, question=question, texts=list(texts), ratio=ratio
        ).model_dump()

        async def compressed_by(worker: Worker) -> CompressResponse:
            response = await worker.request("POST", "/compress", body, timeout_s=COMPRESS_S)
            told = _read(CompressResponse, response)
            if len(told.texts) != len(texts):
                raise WorkerFailed(
                    f"The worker gave {len(told.texts)} texts where {len(texts)} were sent."
                )
            self._pool.agree(worker, told.model, "compressor")
            return told

        return await self._pool.ask(compressed_by, len(texts))

    async def abilities(self) -> Ready:
        """What the first worker that answers can do."""

        async def told_by(worker: Worker) -> Ready:
            return _read(Ready, await worker.request("GET", "/health/ready"))

        return await self._pool.ask(told_by)

    async def ready(self) -> bool:
        """Whether a worker has loaded its weights and run its warm-up."""
        return await self._pool.ready()

    async def close(self) -> None:
        """Ends what readiness has left under way; before the httpx clients are closed."""
        await self._pool.close()

    def _request_size(self, pairs: int) -> int:
        """Pairs of one request: an even share of a worker, where the shares are worth it."""
        shares = max(1, min(len(self._pool), pairs // LEAST_PAIRS))
        return max(1, min(self._pairs_per_request, -(-pairs // shares)))

    async def _score_chunk(self, task: Task, pairs: Sequence[tuple[str, str]]) -> ScoreResponse:
        # Making the request also drops what is no UTF-8.
        body = ScoreRequest(task=task, pairs=list(pairs)).model_dump()

        async def scores_of(worker: Worker) -> ScoreResponse:
            response = await worker.request("POST", "/score", body)
            try:
                scored = ScoreResponse.model_validate_json(response.content)
            except ValidationError as error:
                raise WorkerFailed(f"The evaluator's answer cannot be read: {error}") from error
            if len(scored.scores) != len(pairs):
                raise WorkerFailed(
                    f"The evaluator scored {len(scored.scores)} pairs where {len(pairs)} were sent."
                )
            part = "reranker" if task == "rerank" else "evaluator"
            self._pool.agree(worker, scored.model, part)
            return scored

        return await self._pool.ask(scores_of, len(pairs))


def _read(form: type[Told], response: httpx.Response) -> Told:
    try:
        return form.model_validate_json(response.content)
    except ValidationError as error:
        raise WorkerFailed(f"The worker's answer cannot be read: {error}") from error


def _joined(parts: Sequence[ScoreResponse]) -> ScoreResponse:
    joined = ScoreResponse(
        scores=[], labels=[], probabilities=[], model="", tokens=0, queue_ms=0.0, inference_ms=0.0
    )
    for part in parts:
        offset = len(joined.scores)
        joined.errors += [RowError(index=e.index + offset, reason=e.reason) for e in part.errors]
        joined.scores += part.scores
        joined.labels += part.labels
        joined.probabilities += part.probabilities
        joined.model = part.model
        joined.tokens += part.tokens
        joined.queue_ms = max(joined.queue_ms, part.queue_ms)
        joined.inference_ms += part.inference_ms
    return joined
