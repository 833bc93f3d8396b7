"""Searches that begin before they are needed, and how each of them ends."""

import asyncio
import gc
from typing import Any

from app.websearch.speculative import SearchesAhead
from graphs.types import WebPage
from tests.app.slow import SlowWebSearch, Waiting
from tests.fakes import FakeWebSearch

PAGE = WebPage("https://example.org/tower", "Tower", 0.9, ("The tower was repaired.",))


async def test_a_kept_search_is_taken_once() -> None:
    ahead = SearchesAhead(FakeWebSearch([PAGE]), most=1)
    with ahead.begin("tower", 5) as ticket:
        assert ticket is not None
        ahead.keep(ticket)
    assert await ahead.take(ticket) == ([PAGE], ())
    assert await ahead.take(ticket) is None
    assert ahead.under_way == 0


async def test_a_kept_search_that_nobody_takes_ends() -> None:
    web = SlowWebSearch()
    ahead = SearchesAhead(web, most=1, taken_within_s=0)
    with ahead.begin("tower", 5) as ticket:
        assert ticket is not None
        await asyncio.sleep(0.01)
        ahead.keep(ticket)
    await asyncio.sleep(0.05)

    assert len(web.waiting.left_s) == 1
    assert (await ahead.take(ticket), ahead.under_way) == (None, 0)


async def test_a_taken_search_takes_its_time() -> None:
    waiting = Waiting(0.05)
    ahead = SearchesAhead(SlowWebSearch([PAGE], waiting=waiting), most=1, taken_within_s=0)
    with ahead.begin("tower", 5) as ticket:
        assert ticket is not None
        ahead.keep(ticket)

    assert await ahead.take(ticket) == ([PAGE], ())
    assert waiting.left_s == []


async def test_no_more_begin_than_allowed() -> None:
    web = SlowWebSearch()
    ahead = SearchesAhead(web, most=2)
    with ahead.begin("a", 1) as first, ahead.begin("b", 1), ahead.begin("c", 1) as third:
        assert first is not None
        assert third is None
        ahead.keep(first)
    assert ahead.under_way == 1, "what is kept takes its place until it is taken"
    with SearchesAhead(web, most=0).begin("d", 1) as none:
        assert none is None
    await ahead.aclose()


async def test_a_search_that_fails_unneeded_fails_silently() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    with SearchesAhead(FakeWebSearch(fails=True), most=1).begin("tower", 5):
        await asyncio.sleep(0.01)
    gc.collect(1)  # asyncio tells of an error that nobody took when it forgets the task

    assert told == []


async def test_closing_ends_what_is_under_way() -> None:
    web = SlowWebSearch()
    ahead = SearchesAhead(web, most=2)
    with ahead.begin("a", 1), ahead.begin("b", 1) as kept:
        assert kept is not None
        await asyncio.sleep(0.01)
        ahead.keep(kept)
        await ahead.aclose()
        assert len(web.waiting.left_s) == 2
