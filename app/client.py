"""The typed client: `SelfCrag`, and `AsyncSelfCrag` beside it with the same methods.

    with SelfCrag("https://rag.example.org", api_key) as rag:
        print(rag.ask("What does the upper threshold decide?").answer)
        for event in rag.stream("What is a strip?"):
            ...

Methods raise ProblemError where the service refuses, ServiceUnreachable and UnexpectedResponse
otherwise. 429 and 503 are asked again up to `retries` times, after the time the service names.
"""

import itertools
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

import httpx

from app import client_calls as calls
from app.client_async import AsyncSelfCrag
from app.client_calls import (
    HERE,
    RETRIES,
    TIMEOUT_S,
    Call,
    ClientError,
    EventReader,
    Patience,
    ProblemError,
    ServiceUnreachable,
    UnexpectedResponse,
)
from app.schemas import AskResponse, Event, Workflows

__all__ = [
    "AsyncSelfCrag",
    "ClientError",
    "ProblemError",
    "SelfCrag",
    "ServiceUnreachable",
    "UnexpectedResponse",
]

T = TypeVar("T")


class SelfCrag(Patience):
    """Speaks to one service; to be closed, or used as a context manager."""

    def __init__(
        self,
        base_url: str = HERE,
        api_key: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        super().__init__(retries)
        self._http = httpx.Client(
            base_url=base_url, headers=calls.authorization(api_key), timeout=timeout_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def ask(
        self,
        question: str,
        *,
        workflow: str | None = None,
        thread_id: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AskResponse:
        """The answer, when the run has ended; a client that is stopped ends its run."""
        return self._do(calls.ask(question, workflow, thread_id, options))

    def stream(
        self,
        question: str,
        *,
        workflow: str | None = None,
        thread_id: str | None = None,
        options: Mapping[str, Any] | None = None,
        detach: bool = False,
    ) -> Generator[Event]:
        """The run's events as they happen, the answer among them; a broken stream is taken up.

        Whoever closes the iterator early ends the run, unless `detach`.
        """
        # For the service, the run outlives its connection: it is this client that ends it.
        call = calls.ask(question, workflow, thread_id, options, stream=True, detach=True)
        reader = EventReader()
        try:
            yield from self._follow(call, reader)
        finally:
            if reader.run_id and not (reader.is_done or detach):
                with suppress(ClientError):
                    self.cancel(reader.run_id)

    def events(self, run_id: str, *, after: int | None = None) -> Generator[Event]:
        """The stored events of a run behind number `after`, then those to come."""
        yield from self._follow(calls.events(run_id, after), EventReader(run_id, after))

    def cancel(self, run_id: str) -> None:
        """Ends a run with the best answer it has."""
        self._do(calls.cancel(run_id))

    def workflows(self) -> Workflows:
        """What can be asked, and what may be tuned."""
        return self._do(calls.workflows())

    def is_ready(self) -> bool:
        """Whether the service can answer now; False, too, where nothing answers at all."""
        try:
            return calls.health().result(self._send(calls.health())).status == "ready"
        except (ProblemError, ServiceUnreachable):
            return False

    def _do(self, call: Call[T]) -> T:
        for attempt in itertools.count():
            response = self._send(call)
            if (pause_s := self._pause_s(response, attempt)) is None:
                return call.result(response)
            time.sleep(pause_s)
        raise AssertionError("counting ends never")

    def _send(self, call: Call[T]) -> httpx.Response:
        try:
            return self._http.send(call.request(self._http))
        except httpx.TransportError as error:
            raise ServiceUnreachable(calls.unreachable(error)) from error

    def _follow(self, call: Call[Any], reader: EventReader) -> Generator[Event]:
        breaks = 0
        while not reader.is_done:
            broken: Exception | None = None
            try:
                with self._opened(call) as response:
                    for line in response.iter_lines():
                        for event in reader.take(line):
                            breaks = 0
                            yield event
            except httpx.TransportError as error:
                broken = error
            if not reader.is_done:
                call = self._resumed(reader, breaks, broken)
                time.sleep(calls.backoff_s(breaks))
                breaks += 1

    @contextmanager
    def _opened(self, call: Call[Any]) -> Iterator[httpx.Response]:
        for attempt in itertools.count():
            response = self._http.send(call.request(self._http), stream=True)
            try:
                if (pause_s := self._pause_s(response, attempt)) is None:
                    if not response.is_success:
                        response.read()
                    calls.check(response)
                    yield response
                    return
            finally:
                response.close()
            time.sleep(pause_s)
