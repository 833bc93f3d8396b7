"""Connections of the server: their number and the time for a request's head are bounded.

Bodies have `middleware.BodyTimeout`. How long an answer may take a client to read is not bounded: a
stream lasts as long as its run.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_S = 10.0
REFUSED_AT_ONCE = 50
"""Connections beyond the limit that are still told so, by 503; more are closed unread."""


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


def connection_options(max_connections: int) -> dict[str, Any]:
    """Of `uvicorn.Config`; beyond that many connections requests are answered with 503."""
    return {"http": TimedHttp, "limit_concurrency": max_connections}
