"""Connections of the server: their number and the time for a request's head are bounded.

Bodies have `BodyTimeout`. How long an answer may take a client to read is not bounded: a stream
lasts as long as its run.
"""

import asyncio
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_S = 10.0
BODY_WITHIN_S = 30.0
MIN_BYTES_PER_S = 10_000
LINGER_S = 10.0
"""For what is left of a body whose request is answered already."""
REFUSED_AT_ONCE = 50
"""Connections beyond the limit that are still told so, by 503; more are closed unread."""
TOO_SLOW = f"The body did not arrive within {BODY_WITHIN_S:g} s, or came too slowly."


class TimedHttp(H11Protocol):
    """HTTP/1.1 that closes a connection whose next head is not whole within HEAD_WITHIN_S.

    The time begins with the connection or the head's first byte, or with what comes of a body
    after its answer. uvicorn itself waits for ever.
    """

    head_within_s = HEAD_WITHIN_S
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        most = self.limit_concurrency
        if most is not None and len(self.connections) > most + REFUSED_AT_ONCE:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(self.head_within_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _give_up(self) -> None:
        self._due = None
        if not self._is_answering():
            self.transport.close()


class BodyTimeout:
    """A body that does not come within BODY_WITHIN_S is answered with 408.

    A long one has MIN_BYTES_PER_S more time. Only the waiting for the client counts. What an answer
    has left unread is read before it ends: a connection that is closed with bytes unread is reset,
    and its answer is lost with it (RFC 9112, section 9.6).
    """

    def __init__(self, app: ASGIApp, within_s: float = BODY_WITHIN_S) -> None:
        self._app, self._within_s = app, within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        left_s = self._within_s
        is_whole = not {b"content-length", b"transfer-encoding"} & headers.keys()

        async def timed() -> Message:
            nonlocal left_s, is_whole
            if is_whole:  # what comes now is that the client leaves
                return await receive()
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            try:
                async with asyncio.timeout(left_s):
                    message = await receive()
            except TimeoutError:
                left_s = 0.0
                raise HTTPException(408, TOO_SLOW, {"Connection": "close"}) from None
            left_s -= loop.time() - began_s
            left_s += len(message.get("body", b"")) / MIN_BYTES_PER_S
            is_whole = not message.get("more_body", False)
            return message

        async def drained(message: Message) -> None:
            if is_whole or message["type"] != "http.response.body" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            with suppress(TimeoutError, HTTPException):
                async with asyncio.timeout(LINGER_S):
                    while not is_whole:
                        await timed()
            await send({"type": "http.response.body"})

        await self._app(scope, timed, drained)


def connection_options(max_connections: int) -> dict[str, Any]:
    """Of `uvicorn.Config`; beyond that many connections requests are answered with 503."""
    return {"http": TimedHttp, "limit_concurrency": max_connections}
