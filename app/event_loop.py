"""The event loop of the service and of `selfcrag ask`: looks names up in threads of their own."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, TypeVar

MOST_LOOK_UPS = 64

A = TypeVar("A")
LookUp = Callable[..., list[Any]]


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's own looks names up where everything else that blocks is done, half a dozen at once.

    Behind a firewall that swallows questions a name takes half a minute, so that a few searches of
    the web would hold up every answer, and the end of the process. Here at most MOST_LOOK_UPS are
    under way, which nothing else waits for.
    """

    def __init__(self, look_up: LookUp = socket.getaddrinfo) -> None:
        super().__init__()
        self._look_up = look_up
        self._turns = asyncio.Semaphore(MOST_LOOK_UPS)

    async def getaddrinfo(self, host: Any, port: Any, **more: int) -> list[Any]:
        await self._turns.acquire()
        found: Future[list[Any]] = Future()
        # Daemons: an executor's threads would be waited for at the end.
        asked = found, partial(self._look_up, host, port, **more)
        try:
            Thread(target=self._answer, args=asked, name="look-up", daemon=True).start()
        except RuntimeError as error:
            self._turns.release()
            # To whoever asks for a name this is a network that fails.
            raise OSError("the system has no thread left to look a name up in") from error
        return await asyncio.wrap_future(found, loop=self)

    def _answer(self, found: "Future[list[Any]]", asked: Callable[[], list[Any]]) -> None:
        if found.set_running_or_notify_cancel():
            try:
                found.set_result(asked())
            except Exception as error:  # noqa: BLE001 - whatever it is belongs to whoever asked
                found.set_exception(error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self.call_soon_threadsafe(self._turns.release)


def run(what: Coroutine[Any, Any, A]) -> A:
    """As `asyncio.run`, on this loop."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(what)
