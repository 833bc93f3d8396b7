"""Client of the worker, in-process (ASGITransport) or over HTTP, with failover over several."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate, chain
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from evaluator import errors, schema
from evaluator.errors import EvaluatorError, WorkerError, WorkerRefused, WorkersDisagree
from evaluator.schema import Pair, Task

__all__ = ["EvaluatorClient", "EvaluatorError", "WorkerError", "WorkerRefused", "WorkersDisagree"]

MAX_PAUSE_S = 2.0
RECONNECT_PAUSE_S = 0.2
PROBE_S = 2.0
CONNECT_S = 3.0
REST_S, MAX_REST_S = 5.0, 30.0

COMPRESS_S = 120.0
"""A language model on a CPU reads a few hundred tokens a second."""

Answer = TypeVar("Answer")
Model = TypeVar("Model", bound=BaseModel)
log = logging.getLogger(__name__)


class _Worker:
    """One address: its failures as typed errors, and its rests."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        # Without what may be a password: messages name it.
        self.address = str(http.base_url.copy_with(userinfo=b"", query=None)).rstrip("/")
        self.failed = False  # to answer, the last time
        self.rests_until = 0.0

    async def request(
        self, method: str, path: str, body: object = None, timeout_s: float | None = None
    ) -> httpx.Response:
        """The answer, a success. Raises a WorkerError otherwise."""
        timeout = (
            httpx.USE_CLIENT_DEFAULT
            if timeout_s is None
            else httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))
        )
        try:
            response = await self._http.request(method, path, json=body, timeout=timeout)
        except httpx.RequestError as error:
            raise errors.WorkerUnreachable(
                f"No answer from the evaluator at {self.address}{path} ({type(error).__name__}). "
                "Is the worker running? `selfcrag-evaluator serve` starts one."
            ) from error
        if response.is_success:
            return response
        raise _failure(response)

    def rest_after(self, error: WorkerError) -> None:
        """Not to be asked for a while: as long as it says, else REST_S."""
        rest_s = REST_S
        if isinstance(error, errors.WorkerOverloaded):
            rest_s = min(error.retry_after_s, MAX_REST_S)
        elif not self.failed:  # many requests may meet the same failure: it is told once
            log.warning("%s Skipped for %.0f s while another worker answers.", error, rest_s)
        self.failed, self.rests_until = True, time.monotonic() + rest_s


class EvaluatorClient:
    """Scores pairs through workers; each httpx client brings an address, transport and timeouts.

    Requests go to the workers in turn. What one failed to score is asked of the next, and at last
    once more of all; a worker that failed rests, and is probed before it is asked again. All must
    hold the weights that the first answer named.
    """

    def __init__(self, *workers: httpx.AsyncClient, pairs_per_request: int = 256) -> None:
        self._workers = [_Worker(http) for http in workers]
        self._pairs_per_request = pairs_per_request
        self._turn = 0
        self._models: dict[str, str] = {}  # by part: a worker may hold an evaluator and a reranker

    async def connect(self) -> None:
        """Compares the workers' weights. Raises WorkersDisagree; absent workers are let be."""
        for error in await asyncio.gather(*map(self._probe, self._workers)):
            if isinstance(error, errors.WorkersDisagree):
                raise error

    async def score(self, task: Task, pairs: Sequence[Pair]) -> schema.ScoreResponse:
        """Scores in the order of `pairs`, all of the same weights, in one or several requests.

        No pairs make no request and an empty response. Raises WorkerUnreachable,
        WorkerOverloaded (with retry_after_s), WorkerRefused, WorkerFailed or WorkersDisagree.
        """
        size = self._pairs_per_request
        chunks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        connections = asyncio.Semaphore(len(self._workers))

        async def scored(chunk: Sequence[Pair]) -> schema.ScoreResponse:
            async with connections:
                return await self._score_chunk(task, chunk)

        try:
            async with asyncio.TaskGroup() as group:
                parts = [group.create_task(scored(chunk)) for chunk in chunks]
        except ExceptionGroup as failed:
            first = failed.exceptions[0]
            raise first from first.__cause__
        return _joined([part.result() for part in parts])

    async def _score_chunk(self, task: Task, pairs: Sequence[Pair]) -> schema.ScoreResponse:
        # Making the request also drops what is no UTF-8.
        body = schema.ScoreRequest(task=task, pairs=list(pairs)).model_dump()

        async def scores_of(worker: _Worker) -> schema.ScoreResponse:
            response = _read(schema.ScoreResponse, await worker.request("POST", "/score", body))
            _check_count(len(response.scores), len(pairs), "scores")
            part = "reranker" if task == "rerank" else "evaluator"
            self._agree(worker, response.model, part)
            return response

        return await self._ask(scores_of)

    async def thresholds(self) -> schema.CalibratedThresholds:
        """The thresholds beside the workers' checkpoint.

        WorkerRefused (404) if there are none, or none made for it.
        """

        async def thresholds_of(worker: _Worker) -> schema.CalibratedThresholds:
            await self._check(worker)
            return _read(schema.CalibratedThresholds, await worker.request("GET", "/thresholds"))

        return await self._ask(thresholds_of)

    async def compress(
        self, method: schema.CompressMethod, question: str, texts: Sequence[str], ratio: float
    ) -> schema.CompressResponse:
        """A shorter text for each, by one worker's language model; within COMPRESS_S.

        Raises as `score`; WorkerRefused (404) where the workers have none.
        """
        body = schema.CompressRequest(
            method=method, question=question, texts=list(texts), ratio=ratio
        ).model_dump()

        async def compressed_by(worker: _Worker) -> schema.CompressResponse:
            reply = await worker.request("POST", "/compress", body, timeout_s=COMPRESS_S)
            response = _read(schema.CompressResponse, reply)
            _check_count(len(response.texts), len(texts), "texts")
            self._agree(worker, response.model, "compressor")
            return response

        return await self._ask(compressed_by)

    async def embed_images(
        self, texts: Sequence[str] = (), images: Sequence[str] = ()
    ) -> schema.ImageEmbeddingResponse:
        """Vectors of texts and of images in base64, by one worker's image embedder.

        Raises as `score`; WorkerRefused (404) where the workers have none.
        """
        body = schema.ImageEmbeddingRequest(texts=list(texts), images=list(images)).model_dump()

        async def embedded_by(worker: _Worker) -> schema.ImageEmbeddingResponse:
            reply = await worker.request("POST", "/embed_images", body)
            response = _read(schema.ImageEmbeddingResponse, reply)
            _check_count(len(response.texts), len(texts), "texts")
            _check_count(len(response.images), len(images), "images")
            self._agree(worker, response.model, "image embedder")
            return response

        return await self._ask(embedded_by)

    async def abilities(self) -> schema.Ready:
        """What the first worker that answers can do."""

        async def ready_of(worker: _Worker) -> schema.Ready:
            return _read(schema.Ready, await worker.request("GET", "/health/ready"))

        return await self._ask(ready_of)

    async def ready(self) -> bool:
        """Whether a worker has loaded its weights and run its warm-up; the first yes counts."""
        probes = [asyncio.create_task(self._probe(worker)) for worker in self._workers]
        try:
            for probe in asyncio.as_completed(probes):
                if await probe is None:
                    return True
            return False
        finally:
            for probe in probes:
                probe.cancel()

    async def _ask(self, call: Callable[[_Worker], Awaitable[Answer]]) -> Answer:
        """What `call` returns for one of the workers.

        Each is asked at most once, then once more after a pause, unless time ran out or a busy one
        wants a pause longer than MAX_PAUSE_S. Raises the WorkerError that says most.
        """
        try:
            return await self._failover(call)
        except WorkerError as error:
            pause_s = _pause_s(error)
            if pause_s is None:
                raise
        await asyncio.sleep(pause_s)
        return await self._failover(call)

    async def _failover(self, call: Callable[[_Worker], Awaitable[Answer]]) -> Answer:
        failures: list[WorkerError] = []
        self._turn = (self._turn + 1) % len(self._workers)
        order, now = self._workers[self._turn :] + self._workers[: self._turn], time.monotonic()
        for worker in sorted(order, key=lambda worker: worker.failed and worker.rests_until > now):
            try:
                if worker.failed and len(self._workers) > 1:
                    # So that nobody else waits for the same probe.
                    worker.rests_until = time.monotonic() + PROBE_S
                    await self._check(worker)
                answer = await call(worker)
            except errors.WorkerRefused:
                raise  # the request is at fault: the others would say the same
            except WorkerError as error:
                worker.rest_after(error)
                failures.append(error)
            else:
                worker.failed = False
                return answer
        raise min(failures, key=_rank)

    async def _probe(self, worker: _Worker) -> WorkerError | None:
        """Why the worker cannot be asked, None where it can."""
        try:
            await self._check(worker)
        except WorkerError as error:
            worker.rest_after(error)
            return error
        worker.failed = False
        return None

    async def _check(self, worker: _Worker) -> None:
        """Asks which weights it has loaded and warmed up, within PROBE_S. Raises a WorkerError."""
        response = await worker.request("GET", "/health/ready", timeout_s=PROBE_S)
        try:
            ready = _read(schema.Ready, response)
        except errors.WorkerFailed as error:
            raise errors.WorkerFailed(f"{worker.address} is not an evaluator worker.") from error
        self._agree(worker, ready.model, "evaluator")

    def _agree(self, worker: _Worker, model: str, part: str) -> None:
        """Raises WorkersDisagree for other weights than those of the first answer."""
        first = self._models.setdefault(part, model)
        if model != first:
            raise errors.WorkersDisagree(
                f"The {part} at {worker.address} has the weights {model}, not {first}: "
                "give all workers the same weights, and restart the service after a change."
            )


def _pause_s(error: WorkerError) -> float | None:
    """How long to wait before all are asked once more; None where that would not help."""
    if isinstance(error, errors.WorkerOverloaded):
        return error.retry_after_s if error.retry_after_s <= MAX_PAUSE_S else None
    timed_out = isinstance(error.__cause__, httpx.TimeoutException)
    if timed_out or isinstance(error, errors.WorkerRefused | errors.WorkersDisagree):
        return None
    return RECONNECT_PAUSE_S


def _rank(error: WorkerError) -> tuple[int, float]:
    """Lowest for what the caller can best act on: come back soon, else what broke."""
    if isinstance(error, errors.WorkerOverloaded):
        return 0, error.retry_after_s
    return (2 if isinstance(error, errors.WorkersDisagree) else 1), 0.0


def _failure(response: httpx.Response) -> WorkerError:
    try:
        detail = str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"The evaluator answered with the status {response.status_code} and no reason."
    if response.status_code in (429, 503):
        retry_after = response.headers.get("retry-after", "")
        return errors.WorkerOverloaded(detail, float(retry_after) if retry_after.isdigit() else 1.0)
    if response.is_client_error:
        return errors.WorkerRefused(detail, response.status_code)
    return errors.WorkerFailed(f"The evaluator failed with {response.status_code}: {detail}")


def _read(model: type[Model], response: httpx.Response) -> Model:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        # Without what it sent, which may be anything and is told to those who ask.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        what = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise errors.WorkerFailed(f"The worker's answer cannot be read: {what}.") from error


def _check_count(received: int, sent: int, what: str) -> None:
    if received != sent:
        raise errors.WorkerFailed(f"The worker gave {received} {what} where {sent} were asked for.")


def _joined(parts: Sequence[schema.ScoreResponse]) -> schema.ScoreResponse:
    offsets = accumulate((len(part.scores) for part in parts), initial=0)
    return schema.ScoreResponse(
        scores=list(chain.from_iterable(part.scores for part in parts)),
        labels=list(chain.from_iterable(part.labels for part in parts)),
        probabilities=list(chain.from_iterable(part.probabilities for part in parts)),
        spans=list(chain.from_iterable(part.spans for part in parts)),
        # A worker of a former version tells none.
        similarities=[
            each for part in parts for each in part.similarities or [None] * len(part.scores)
        ],
        model=parts[-1].model if parts else "",
        tokens=sum(part.tokens for part in parts),
        queue_ms=max((part.queue_ms for part in parts), default=0.0),
        inference_ms=sum(part.inference_ms for part in parts),
        errors=[
            error.model_copy(update={"index": error.index + offset})
            for part, offset in zip(parts, offsets, strict=False)
            for error in part.errors
        ],
    )
