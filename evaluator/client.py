"""The worker's client: one code path in-process (ASGITransport) and over HTTP."""

import asyncio
from collections.abc import Sequence

import httpx
from pydantic import ValidationError

from evaluator.errors import (
    EvaluatorError,
    WorkerError,
    WorkerFailed,
    WorkerOverloaded,
    WorkerRefused,
    WorkerUnreachable,
)
from evaluator.schema import RowError, ScoreRequest, ScoreResponse, Task, Thresholds

__all__ = [
    "EvaluatorClient",
    "EvaluatorError",
    "WorkerError",
    "WorkerFailed",
    "WorkerOverloaded",
    "WorkerRefused",
    "WorkerUnreachable",
]

LONGEST_PAUSE_S = 2.0
RECONNECT_PAUSE_S = 0.2


class EvaluatorClient:
    """Scores pairs through a worker; the httpx client brings address, transport and timeouts.

    What cannot have been scored is asked once more: a busy worker's refusal, when it wants no
    longer pause than LONGEST_PAUSE_S, and a connection that was never made.
    """

    def __init__(self, http: httpx.AsyncClient, *, pairs_per_request: int = 256) -> None:
        self._http = http
        self._pairs_per_request = pairs_per_request

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> ScoreResponse:
        """Scores in the order of `pairs`, split over several requests where there are many.

        No pairs make no request and an empty response. Raises WorkerUnreachable,
        WorkerOverloaded (with retry_after_s), WorkerRefused or WorkerFailed.
        """
        size = self._pairs_per_request
        chunks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        parts = [await self._score_chunk(task, chunk) for chunk in chunks]
        return _joined(parts)

    async def thresholds(self, *, allow_foreign: bool = False) -> Thresholds:
        """The thresholds beside the worker's checkpoint.

        WorkerRefused (404) if there are none, or none made for it unless `allow_foreign`.
        """
        path = "/thresholds?allow_foreign=true" if allow_foreign else "/thresholds"
        response = await self._send("GET", path)
        try:
            return Thresholds.model_validate_json(response.content)
        except ValidationError as error:
            raise WorkerFailed(f"The evaluator's thresholds cannot be read: {error}") from error

    async def ready(self) -> bool:
        """Whether the worker has loaded its weights and run its warm-up."""
        try:
            await self._ask("GET", "/health/ready")
        except WorkerError:
            return False
        return True

    async def _score_chunk(self, task: Task, pairs: Sequence[tuple[str, str]]) -> ScoreResponse:
        request = ScoreRequest(task=task, pairs=list(pairs))  # also drops what is no UTF-8
        response = await self._send("POST", "/score", request.model_dump())
        try:
            scored = ScoreResponse.model_validate_json(response.content)
        except ValidationError as error:
            raise WorkerFailed(f"The evaluator's answer cannot be read: {error}") from error
        if len(scored.scores) != len(pairs):
            raise WorkerFailed(
                f"The evaluator scored {len(scored.scores)} pairs where {len(pairs)} were sent."
            )
        return scored

    async def _send(self, method: str, path: str, body: object = None) -> httpx.Response:
        try:
            return await self._ask(method, path, body)
        except WorkerOverloaded as busy:
            if busy.retry_after_s > LONGEST_PAUSE_S:
                raise
            pause_s = busy.retry_after_s
        except WorkerUnreachable as unreachable:
            if not isinstance(unreachable.__cause__, httpx.ConnectError):
                raise
            pause_s = RECONNECT_PAUSE_S
        await asyncio.sleep(pause_s)
        return await self._ask(method, path, body)

    async def _ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        try:
            response = await self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            where = f"{str(self._http.base_url).rstrip('/')}/{path.lstrip('/')}"
            raise WorkerUnreachable(
                f"No answer from the evaluator at {where} ({type(error).__name__}). "
                "Is the worker running?"
            ) from error
        if response.is_success:
            return response
        raise _failure(response)


def _failure(response: httpx.Response) -> WorkerError:
    detail = _detail(response)
    if response.status_code in (429, 503):
        return WorkerOverloaded(detail, _retry_after_s(response))
    if response.is_client_error:
        return WorkerRefused(detail, response.status_code)
    return WorkerFailed(f"The evaluator failed with {response.status_code}: {detail}")


def _detail(response: httpx.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and isinstance(body.get("detail"), str):
        return str(body["detail"])
    return f"HTTP {response.status_code}"


def _retry_after_s(response: httpx.Response) -> float:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdigit() else 1.0


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
