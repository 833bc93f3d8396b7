"""`AsyncSelfCrag`: the client for programs on asyncio."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
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


class AsyncSelfCrag(Patience):
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
        self._http = httpx.AsyncClient(
            base_url=base_url, headers=calls.authorization(api_key), timeout=timeout_s
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        question: str,
        *,
        workflow: str | None = None,
        thread_id: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AskResponse:
        """The answer, when the run has ended; a client that is stopped ends its run."""
        return await self._do(calls.ask(question, workflow, thread_id, options))

    async def stream(
        self,
        question: str,
        *,
        workflow: str | None = None,
        thread_id: str | None = None,
        options: Mapping[str, Any] | None = None,
        detach: bool = False,
    ) -> AsyncGenerator[Event]:
        """The run's events as they happen, the answer among them; a broken stream is taken up.

        Whoever closes the iterator early ends the run, unless `detach`.
        """
        # For the service, the run outlives its connection: it is this client that ends it.
        call = calls.ask(question, workflow, thread_id, options, stream=True, detach=True)
        reader = EventReader()
        try:
            async with aclosing(self._follow(call, reader)) as following:
                async for event in following:
                    yield event
        finally:
            if reader.run_id and not (reader.is_done or detach):
                with suppress(ClientError):
                    await self.cancel(reader.run_id)

    async def events(self, run_id: str, *, after: int | None = None) -> AsyncGenerator[Event]:
        """The stored events of a run behind number `after`, then those to come."""
        reader = EventReader(run_id, after)
        async with aclosing(self._follow(calls.events(run_id, after), reader)) as following:
            async for event in following:
                yield event

    async def cancel(self, run_id: str) -> None:
        """Ends a run with the best answer it has."""
        await self._do(calls.cancel(run_id))

    async def runs(
        self, *, limit: int = 50, offset: int = 0, thread_id: str | None = None
    ) -> RunList:
        """Your runs, newest first."""
        return await self._do(calls.runs(limit, offset, thread_id))

    async def run(self, run_id: str) -> StoredRun:
        """The whole trace of a run."""
        return await self._do(calls.run(run_id))

    async def give_feedback(
        self,
        run_id: str,
        score: float,
        *,
        comment: str | None = None,
        corrected_answer: str | None = None,
    ) -> Feedback:
        """Says how good an answer was, from -1 to 1."""
        return await self._do(calls.judge(run_id, score, comment, corrected_answer))

    async def thread(self, thread_id: str) -> Thread:
        """A conversation, oldest message first."""
        return await self._do(calls.thread(thread_id))

    async def delete_thread(self, thread_id: str) -> None:
        """Forgets a conversation and its runs."""
        await self._do(calls.delete_thread(thread_id))

    async def upload(
        self, *paths: Path | str, on_progress: OnProgress | None = None
    ) -> IngestReport:
        """Brings files into the knowledge base; refused ones are in the report. Raises OSError."""
        files = await asyncio.to_thread(calls.opened, paths)
        try:
            async with aclosing(self._follow(calls.upload(files), EventReader())) as following:
                async for event in following:
                    if report := report_of(event, on_progress):
                        return report
        finally:
            calls.closed(files)
        raise UnexpectedResponse("The upload ended without a report.")

    async def documents(self, *, query: str = "", limit: int = 100, offset: int = 0) -> Documents:
        """Your documents and the shared ones, ordered by source."""
        return await self._do(calls.documents(query, limit, offset))

    async def delete_document(self, document_id: str) -> None:
        """Removes a document of yours."""
        await self._do(calls.delete_document(document_id))

    async def workflows(self) -> Workflows:
        """What can be asked, and what may be tuned."""
        return await self._do(calls.workflows())

    async def is_ready(self) -> bool:
        """Whether the service can answer now; False, too, where nothing answers, or a proxy."""
        try:
            return calls.health().result(await self._send(calls.health())).status == "ready"
        except ClientError:
            return False

    async def _do(self, call: Call[T]) -> T:
        for attempt in itertools.count():
            response = await self._send(call)
            if (pause_s := self._pause_s(response, attempt)) is None:
                return call.result(response)
            await asyncio.sleep(pause_s)
        raise AssertionError("counting ends never")

    async def _send(self, call: Call[T]) -> httpx.Response:
        try:
            return await self._http.send(call.request(self._http))
        except httpx.TransportError as error:
            raise ServiceUnreachable(calls.unreachable(error)) from error

    async def _follow(self, call: Call[Any], reader: EventReader) -> AsyncGenerator[Event]:
        breaks = 0
        while not reader.is_done:
            broken: Exception | None = None
            try:
                async with self._opened(call, reader) as response:
                    async for line in response.aiter_lines():
                        for event in reader.take(line):
                            breaks = 0
                            yield event
            except httpx.TransportError as error:
                broken = error
            if not reader.is_done:
                call = self._resumed(reader, breaks, broken)
                await asyncio.sleep(calls.backoff_s(breaks))
                breaks += 1

    @asynccontextmanager
    async def _opened(self, call: Call[Any], reader: EventReader) -> AsyncIterator[httpx.Response]:
        for attempt in itertools.count():
            response = await self._http.send(call.request(self._http), stream=True)
            try:
                if (pause_s := self._pause_s(response, attempt)) is None:
                    if not response.is_success:
                        await response.aread()
                    calls.check(response)
                    reader.is_done = response.status_code == calls.NOTHING_MORE
                    yield response
                    return
            finally:
                await response.aclose()
            await asyncio.sleep(pause_s)
