"""`SelfCrag`: the plain client."""

import itertools
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from app.client import calls
from app.client.calls import HERE, RETRIES, TIMEOUT_S, Call, Patience
from app.client.errors import (
    ClientError,
    ServiceUnreachable,
    UnexpectedResponse,
)
from app.client.events import EventReader, OnProgress, report_of
from app.document_schemas import Documents, IngestReport
from app.run_schemas import Feedback, RunList, StoredRun, Thread
from app.schemas import AskResponse, Event, Workflows

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

    def runs(self, *, limit: int = 50, offset: int = 0, thread_id: str | None = None) -> RunList:
        """Your runs, newest first."""
        return self._do(calls.runs(limit, offset, thread_id))

    def run(self, run_id: str) -> StoredRun:
        """The whole trace of a run."""
        return self._do(calls.run(run_id))

    def give_feedback(
        self,
        run_id: str,
        score: float,
        *,
        comment: str | None = None,
        corrected_answer: str | None = None,
    ) -> Feedback:
        """Says how good an answer was, from -1 to 1."""
        return self._do(calls.judge(run_id, score, comment, corrected_answer))

    def thread(self, thread_id: str) -> Thread:
        """A conversation, oldest message first."""
        return self._do(calls.thread(thread_id))

    def delete_thread(self, thread_id: str) -> None:
        """Forgets a conversation and its runs."""
        self._do(calls.delete_thread(thread_id))

    def upload(self, *paths: Path | str, on_progress: OnProgress | None = None) -> IngestReport:
        """Brings files into the knowledge base; refused ones are in the report. Raises OSError."""
        files = calls.opened(paths)
        try:
            for event in self._follow(calls.upload(files), EventReader()):
                if report := report_of(event, on_progress):
                    return report
        finally:
            calls.closed(files)
        raise UnexpectedResponse("The upload ended without a report.")

    def documents(self, *, query: str = "", limit: int = 100, offset: int = 0) -> Documents:
        """Your documents and the shared ones, ordered by source."""
        return self._do(calls.documents(query, limit, offset))

    def delete_document(self, document_id: str) -> None:
        """Removes a document of yours."""
        self._do(calls.delete_document(document_id))

    def workflows(self) -> Workflows:
        """What can be asked, and what may be tuned."""
        return self._do(calls.workflows())

    def is_ready(self) -> bool:
        """Whether the service can answer now; False, too, where nothing answers, or a proxy."""
        try:
            return calls.health().result(self._send(calls.health())).status == "ready"
        except ClientError:
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
                with self._opened(call, reader) as response:
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
    def _opened(self, call: Call[Any], reader: EventReader) -> Iterator[httpx.Response]:
        for attempt in itertools.count():
            response = self._http.send(call.request(self._http), stream=True)
            try:
                if (pause_s := self._pause_s(response, attempt)) is None:
                    if not response.is_success:
                        response.read()
                    calls.check(response)
                    reader.is_done = response.status_code == calls.NOTHING_MORE
                    yield response
                    return
            finally:
                response.close()
            time.sleep(pause_s)
