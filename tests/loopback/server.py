"""An ASGI application on a free port of 127.0.0.1, in a thread of its own."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

START_TIMEOUT_S = 10.0
TOGETHER_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Received:
    """A request as it arrived; `body` is the JSON sent, or None."""

    method: str
    path: str
    headers: dict[str, str]
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None


class LoopbackServer:
    """A context manager; `requests` holds everything received, in order.

    `most_at_once` is the largest number of requests that were held together, `together` how many
    must have been before any of them is answered (given up after TOGETHER_TIMEOUT_S).
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As if nothing had been asked or set yet."""
        self.requests: list[Received] = []
        self.status = 200
        """Anything but 200 is what every request is answered with."""
        self.failures: int | None = None
        """Where set, so many requests alone are answered with `status`, the first ones."""
        self.refusal_headers: dict[str, str] = {}
        self.delay_s = 0.0
        self.under_way = self.most_at_once = self.together = 0
        self._gathered = asyncio.Event()

    @property
    def base_url(self) -> str:
        """Of those that speak an API of OpenAI's."""
        return f"{self.url}/v1"

    def routes(self) -> Sequence[BaseRoute]:
        raise NotImplementedError

    def record(self, request: Request, body: Any = None) -> None:
        self.requests.append(
            Received(
                request.method,
                request.url.path,
                dict(request.headers),
                dict(request.query_params),
                body,
            )
        )

    def refuses(self) -> bool:
        """Whether the request at hand is to be answered with `status`."""
        if self.status == 200 or self.failures == 0:
            return False
        if self.failures is not None:
            self.failures -= 1
        return True

    async def hold(self, request: Request, seconds: float | None = None) -> None:
        """Waits `seconds` (`delay_s` by default), and for `together`."""
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        if self.most_at_once >= self.together:
            self._gathered.set()
        try:
            await pause(request, self.delay_s if seconds is None else seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gathered.wait(), TOGETHER_TIMEOUT_S)
        finally:
            self.under_way -= 1

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.address = f"127.0.0.1:{self.port}"
        config = uvicorn.Config(
            Starlette(routes=self.routes()),
            log_level="critical",
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if time.monotonic() > give_up_at:
                raise RuntimeError("the loopback server did not start")
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(START_TIMEOUT_S)
        self._socket.close()


async def pause(request: Request, seconds: float) -> None:
    """Sleeps, but not on when the client has left."""
    wake_at = time.monotonic() + seconds
    while (left := wake_at - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 0.02))
        if await request.is_disconnected():
            return


def json_error(status: int, body: object) -> Response:
    return JSONResponse(body, status_code=status)


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
