"""Several workers as one: who is asked next, who rests after a failure, whose weights count."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from evaluator.errors import (
    WorkerError,
    WorkerFailed,
    WorkerOverloaded,
    WorkerRefused,
    WorkersDisagree,
    WorkerUnreachable,
)

LONGEST_PAUSE_S = 2.0
RECONNECT_PAUSE_S = 0.2
PROBE_S = 2.0
CONNECT_S = 3.0
FIRST_REST_S, LONGEST_REST_S = 0.5, 30.0

Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)


class _Ready(BaseModel):
    """What of `/health/ready` counts here."""

    model: str


class Worker:
    """One address: its failures as typed errors, the pairs under way there, and its rests."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.address = str(http.base_url).rstrip("/")
        self.pairs = 0
        self.proven = False
        """Whether its last answer was a good one."""
        self.rests_until = 0.0
        self._rest_s = FIRST_REST_S

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
            raise WorkerUnreachable(
                f"No answer from the evaluator at {self.address}{path} ({type(error).__name__}). "
                "Is the worker running?"
            ) from error
        if response.is_success:
            return response
        raise _failure(response)

    async def model(self) -> str:
        """The name of the weights it has loaded and warmed up."""
        response = await self.request("GET", "/health/ready", timeout_s=PROBE_S)
        try:
            return _Ready.model_validate_json(response.content).model
        except ValidationError as error:
            raise WorkerFailed(f"At {self.address} answers no evaluator.") from error

    def rest(self, error: WorkerError) -> None:
        """Not to be asked for a while: as long as it says, else twice as long as the last time."""
        rest_s = self._rest_s
        if isinstance(error, WorkerOverloaded):
            rest_s = min(error.retry_after_s, LONGEST_REST_S)
        else:
            self._rest_s = min(2 * rest_s, LONGEST_REST_S)
            _log.warning("%s Others are asked for %.1f s, if there are any.", error, rest_s)
        self.proven = False
        self.rests_until = time.monotonic() + rest_s

    def recover(self) -> None:
        """After a good answer."""
        self.proven, self.rests_until, self._rest_s = True, 0.0, FIRST_REST_S


class Pool:
    """Asks the worker with the fewest pairs under way, and another where one fails.

    Every call must be one that may be repeated. A worker that failed rests; when the rest is over,
    the next request first probes `/health/ready`. In the background run only probes that readiness
    did not wait for, one a worker. All workers must hold the weights that the first of them named.
    """

    def __init__(self, https: Sequence[httpx.AsyncClient]) -> None:
        self._workers = [Worker(http) for http in https]
        self._models: dict[str, str] = {}
        self._probes: dict[Worker, asyncio.Task[WorkerError | None]] = {}

    def __len__(self) -> int:
        return len(self._workers)

    async def connect(self) -> None:
        """Probes all. Raises WorkersDisagree where two differ; who does not answer is let be."""
        for error in await self._prove(self._workers):
            if isinstance(error, WorkersDisagree):
                raise error

    async def ready(self) -> bool:
        """Whether at least one can be asked; once one can, nobody waits for the others.

        Their probes go on, so that a silent worker rests and holds up no request.
        """
        for probe in asyncio.as_completed([self._probe(worker) for worker in self._workers]):
            if await probe is None:
                return True
        return False

    async def close(self) -> None:
        """Ends the probes that are still under way."""
        for probe in self._probes.values():
            probe.cancel()
        await asyncio.gather(*self._probes.values(), return_exceptions=True)

    def agree(self, worker: Worker, model: str, part: str = "evaluator") -> None:
        """Raises WorkersDisagree for other weights than those of the first answer.

        `part` is the evaluator or the reranker: a worker may hold one of each.
        """
        first = self._models.setdefault(part, model)
        if model != first:
            raise WorkersDisagree(
                f"The {part} at {worker.address} has the weights {model}, not {first}: "
                "give all workers the same weights, and restart the service after a change."
            )

    async def ask(self, call: Callable[[Worker], Awaitable[Answer]], pairs: int = 0) -> Answer:
        """What `call` returns for one of the workers.

        Each is asked at most once, then once more after a pause, unless time ran out or a busy one
        wants a pause longer than LONGEST_PAUSE_S. Raises the most telling WorkerError.
        """
        try:
            return await self._each_once(call, pairs)
        except WorkerError as error:
            pause_s = _pause_s(error)
            if pause_s is None:
                raise
        await asyncio.sleep(pause_s)
        return await self._each_once(call, pairs)

    async def _each_once(self, call: Callable[[Worker], Awaitable[Answer]], pairs: int) -> Answer:
        untried = list(self._workers)
        errors: list[WorkerError] = []
        while untried:
            worker = await self._choice(untried)
            untried.remove(worker)
            try:
                return await self._asked(worker, call, pairs)
            except WorkerRefused:
                raise  # the request is at fault: the others would say the same
            except WorkerError as error:
                errors.append(error)
        raise min(errors, key=_telling)

    async def _asked(
        self, worker: Worker, call: Callable[[Worker], Awaitable[Answer]], pairs: int
    ) -> Answer:
        worker.pairs += pairs
        try:
            answer = await call(worker)
        except WorkerRefused:
            raise
        except WorkerError as error:
            if worker.proven:  # many requests may meet the same failure: it counts once
                worker.rest(error)
            raise
        finally:
            worker.pairs -= pairs
        worker.recover()
        return answer

    async def _choice(self, untried: Sequence[Worker]) -> Worker:
        if len(self) > 1:
            now = time.monotonic()
            rested = [one for one in untried if not one.proven and one.rests_until <= now]
            for one in rested:
                one.rests_until = now + PROBE_S  # so that nobody else waits for the same probe
            await self._prove(rested)
        proven = [one for one in untried if one.proven]
        if proven:
            return min(proven, key=lambda one: (one.pairs, random.random()))
        return min(untried, key=lambda one: one.rests_until)  # rather one that rests than none

    async def _prove(self, workers: Sequence[Worker]) -> list[WorkerError | None]:
        """Probes them side by side; why each cannot be asked, or None where it can."""
        return await asyncio.gather(*map(self._proved, workers))

    def _probe(self, worker: Worker) -> asyncio.Task[WorkerError | None]:
        """The probe of this worker that is under way, or a new one."""
        probe = self._probes.get(worker)
        if probe is None or probe.done():
            probe = self._probes[worker] = asyncio.create_task(self._proved(worker))
        return probe

    async def _proved(self, worker: Worker) -> WorkerError | None:
        try:
            self.agree(worker, await worker.model())
        except WorkerError as error:
            worker.rest(error)
            return error
        worker.recover()
        return None


def _pause_s(error: WorkerError) -> float | None:
    """How long to wait before all are asked once more; None where that would not help."""
    if isinstance(error, WorkerOverloaded):
        return error.retry_after_s if error.retry_after_s <= LONGEST_PAUSE_S else None
    timed_out = isinstance(error.__cause__, httpx.TimeoutException)
    if timed_out or isinstance(error, WorkerRefused | WorkersDisagree):
        return None
    return RECONNECT_PAUSE_S


def _telling(error: WorkerError) -> tuple[int, float]:
    """Least for what the caller can best act on: come back soon, else what broke."""
    if isinstance(error, WorkerOverloaded):
        return 0, error.retry_after_s
    return (2 if isinstance(error, WorkersDisagree) else 1), 0.0


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
