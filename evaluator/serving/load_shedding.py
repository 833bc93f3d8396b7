"""Load shedding: limits of a request, permits to a queue, an end to work nobody waits for."""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

from evaluator.errors import Overloaded, TooManyPairs

MAX_RETRY_S = 60
_REMEMBERED = 0.95  # of the time an item took so far, at every batch

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Limits:
    """What one worker takes; beyond the first and third 413, beyond the second 429."""

    max_pairs: int = 1024
    max_queued_pairs: int = 1280
    max_body_bytes: int = 16_000_000
    cached_pairs: int = 20_000

    def check(self, count: int, what: str) -> None:
        """TooManyPairs for a request of more pairs or texts than one may carry."""
        if count > self.max_pairs:
            raise TooManyPairs(f"{count} {what} in one request; at most {self.max_pairs}.")


class Permits:
    """So many items may wait or run at once: a burst waits, what comes beyond is refused at once.

    One thread, the event loop's.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        self._limit = limit
        self._s_per_item = 0.0

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Room for `count` items meanwhile. Raises Overloaded, with when those inside are done."""
        if count and self.used + count > self._limit:
            wait_s = math.ceil(self.used * self._s_per_item)
            raise Overloaded(min(MAX_RETRY_S, max(1, wait_s)))
        self.used += count
        try:
            yield
        finally:
            self.used -= count

    def computed(self, count: int, took_s: float) -> None:
        """So many items took so many seconds."""
        latest = took_s / count
        kept = _REMEMBERED if self._s_per_item else 0.0
        self._s_per_item = kept * self._s_per_item + (1 - kept) * latest


async def while_connected(connection: Request, work: Coroutine[None, None, Answer]) -> Answer:
    """The answer; cancels the work when the client disconnects before it is there.

    The body must have been read: the next message of the connection is its end.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.ensure_future(connection.receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HTTPException(499, "The client left before its answer was there.")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
