"""Web searches that begin before it is known whether they are needed."""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from graphs.ports import WebSearch
from graphs.types import Degraded, WebPage

# The step that takes a kept search follows at once, unless its run was ended in between.
TAKEN_WITHIN_S = 0.5

Found = tuple[Sequence[WebPage], Sequence[Degraded]]


class SearchesAhead:
    """At most `most` searches of all runs that nobody has taken yet; beyond it none begins.

    A search ends with the block it began in, unless it was kept; a kept one ends when nobody
    takes it within `taken_within_s`. So none outlives its run by more than that.
    """

    def __init__(
        self, web_search: WebSearch, most: int, taken_within_s: float = TAKEN_WITHIN_S
    ) -> None:
        self._web_search, self._most, self._taken_within_s = web_search, most, taken_within_s
        self._begun: dict[str, asyncio.Task[Found]] = {}
        self._kept: dict[str, asyncio.Task[Found]] = {}

    @property
    def under_way(self) -> int:
        return len(self._begun) + len(self._kept)

    @contextmanager
    def begin(self, query: str, max_pages: int) -> Iterator[str | None]:
        if self.under_way >= self._most:
            yield None
            return
        ticket = uuid.uuid4().hex
        self._begun[ticket] = asyncio.create_task(self._search(query, max_pages))
        try:
            yield ticket
        finally:
            _end(self._begun, ticket)

    def keep(self, ticket: str) -> None:
        self._kept[ticket] = self._begun.pop(ticket)
        asyncio.get_running_loop().call_later(self._taken_within_s, _end, self._kept, ticket)

    async def take(self, ticket: str) -> Found | None:
        task = self._kept.pop(ticket, None)
        return None if task is None else await task

    async def aclose(self) -> None:
        """Ends all searches that nobody has taken."""
        left = [*self._begun.values(), *self._kept.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _search(self, query: str, max_pages: int) -> Found:
        return await self._web_search.search(query, max_pages)


def _end(tasks: dict[str, asyncio.Task[Found]], ticket: str) -> None:
    # Cancelling one that has failed already keeps asyncio from reporting its error, too.
    if ticket in tasks:
        tasks.pop(ticket).cancel()
