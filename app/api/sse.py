"""Server-sent events with heartbeats; a run ends when its client disconnects."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.runs import replay
from app.runs.manager import Runs
from app.runs.run import Run
from app.schemas.ask import Event, encoded
from app.storage.lifecycle import Store

Encode = Callable[[int, Event], str]
"""A numbered event as it goes over the wire; empty where a protocol has no words for it."""

HEARTBEAT_S = 15.0
EVENT_STREAM = "text/event-stream"
CLIENT_CLOSED_REQUEST = 499
"""A status that nobody reads; the log does."""
RUN_HEADER = "X-Run-Id"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def never_silent(
    texts: AsyncGenerator[str], heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[str]:
    """Yield SSE chunks, with a heartbeat comment after `heartbeat_s` of silence."""
    upcoming = asyncio.ensure_future(anext(texts, None))
    try:
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=heartbeat_s)
            if not done:
                yield ": \n\n"
                continue
            if (text := upcoming.result()) is None:
                return
            if text:
                yield text
            upcoming = asyncio.ensure_future(anext(texts, None))
    finally:
        upcoming.cancel()
        with suppress(asyncio.CancelledError):
            await upcoming
        await texts.aclose()


async def followed(run: Run, start: int = 0, encode: Encode = encoded) -> AsyncGenerator[str]:
    """The run's events from `start` on, as they go over the wire: what is there goes together."""
    async with aclosing(run.follow_together(start)) as batches:
        async for batch in batches:
            yield "".join(encode(number, event) for number, event in batch)


async def while_client_stays(
    request: Request,
    answer: Awaitable[Response],
    run: Run | None,
    runs: Runs,
    detach: bool = False,
) -> Response:
    """The answer; where its client leaves first the run ends, unless it is to go on."""
    waiting = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        response = (
            waiting.result() if waiting.done() else Response(status_code=CLIENT_CLOSED_REQUEST)
        )
        if run is not None:
            response.headers[RUN_HEADER] = run.id
        return response
    finally:
        for task in (waiting, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await _end(run, runs, detach)


async def _end(run: Run | None, runs: Runs, detach: bool) -> None:
    if run is not None and not detach and not run.is_shared:
        await runs.cancel(run)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """The run's events as a response; the run ends with it, even before its first event."""

    def __init__(
        self,
        run: Run,
        runs: Runs,
        detach: bool,
        encode: Encode = encoded,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        texts = never_silent(followed(run, encode=encode))
        own_headers = {**HEADERS, RUN_HEADER: run.id, **(headers or {})}
        super().__init__(texts, media_type=EVENT_STREAM, headers=own_headers)
        self._run, self._runs, self._detach = run, runs, detach

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(_end(self._run, self._runs, self._detach))


def stream_of(
    run_id: str, runs: Runs, store: Store, start: int = 0, encode: Encode | None = None
) -> StreamingResponse:
    """A run's events from `start` on, followed where it is under way here, as kept otherwise."""
    if run := runs.live(run_id):
        texts = followed(run, start, encode or encoded)
    else:
        texts = replay.replayed(store.runs, run_id, start, encode)
    headers = {**HEADERS, RUN_HEADER: run_id}
    return StreamingResponse(never_silent(texts), media_type=EVENT_STREAM, headers=headers)
