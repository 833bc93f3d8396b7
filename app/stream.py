"""Server-sent events, and the watch over the client that reads them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.runs import Run, Runs
from app.schemas import AnswerEvent, ErrorEvent, Event

T = TypeVar("T")

HEARTBEAT_S = 15.0
EVENT_STREAM = "text/event-stream"
# Unicode's line separators split lines in some clients; halves of a character are no UTF-8.
_UNSAFE = re.compile("[\u2028\u2029\x85\ud800-\udfff]")
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class ClientLeft(Exception):
    """The client closed its connection; nobody waits for an answer."""


def payload(event: Event) -> dict[str, object]:
    """What goes into `data`."""
    if isinstance(event, AnswerEvent):
        return event.response.model_dump(mode="json")
    if isinstance(event, ErrorEvent):
        return event.problem.model_dump(mode="json", exclude_none=True)
    return event.model_dump(mode="json", exclude_none=True)


def as_json(value: object) -> str:
    """One line of JSON that can be sent as UTF-8 whatever a chat endpoint has said."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def encoded(number: int, event: Event) -> str:
    return f"event: {event.name}\ndata: {as_json(payload(event))}\nid: {number}\n\n"


async def sse(run: Run, heartbeat_s: float = HEARTBEAT_S) -> AsyncIterator[str]:
    """The run's events on the wire, a comment whenever nothing was said for a while."""
    events = run.follow()
    upcoming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=heartbeat_s)
            if not done:
                yield ": \n\n"
                continue
            if (item := upcoming.result()) is None:
                return
            yield encoded(*item)
            upcoming = asyncio.ensure_future(anext(events, None))
    finally:
        upcoming.cancel()
        with suppress(asyncio.CancelledError):
            await upcoming
        await events.aclose()


async def while_client_stays(request: Request, answer: Awaitable[T]) -> T:
    """The answer, unless the client leaves first: then ClientLeft, and the wait is cancelled."""
    waiting = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientLeft
        return waiting.result()
    finally:
        for task in (waiting, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, ClientLeft):
                await task


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """The run's events as a response; the run ends with it, even before its first event."""

    def __init__(self, run: Run, runs: Runs, detach: bool) -> None:
        super().__init__(sse(run), media_type=EVENT_STREAM, headers=HEADERS)
        self._run, self._runs, self._detach = run, runs, detach

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._detach:
                await asyncio.shield(self._runs.cancel(self._run))
