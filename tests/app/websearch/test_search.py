import asyncio
import gc
import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from app.resilience.circuit_breaker import CircuitBreaker
from app.resilience.deadline import run_ends_at
from app.websearch import engines as engines
from app.websearch import search as module
from app.websearch.engines import TavilySearch, WebHit, WikipediaSearch
from app.websearch.page import PageReader
from app.websearch.search import FetchingWebSearch, SearchesAhead
from graphs.errors import SearchFailed
from graphs.ports import WebSearch
from graphs.types import WebPage
from tests.app.slow import SlowWebSearch, Waiting
from tests.fakes import FakeWebSearch
from tests.loopback.corpus import BY_SLUG
from tests.loopback.pages import PageServer
from tests.loopback.tavily import TAVILY_KEY, TavilyServer


class Found:
    """An engine that finds what it was made with."""

    def __init__(self, *urls: str, text: str = "the result's own text") -> None:
        self.results = [WebHit(url, f"title {n}", text, 1 / (n + 1)) for n, url in enumerate(urls)]
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, max_results: int) -> list[WebHit]:
        self.asked.append((query, max_results))
        return self.results[:max_results]

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.fixture
async def reader(pages: PageServer) -> AsyncIterator[PageReader]:
    reader = PageReader(allowed_private_hosts={pages.address}, timeout_s=0.5)
    yield reader
    await reader.aclose()


@pytest.fixture
async def web(tavily: TavilyServer, reader: PageReader) -> AsyncIterator[FetchingWebSearch]:
    web = FetchingWebSearch(TavilySearch(TAVILY_KEY, base_url=tavily.url), reader)
    yield web
    await web.aclose()


@pytest.mark.parametrize(
    ("query", "slug", "joint"),
    [("Fresnel lens, lighthouse", "lighthouse", ": "), ("菲涅耳透镜, 灯塔", "dengta", "：")],
)
async def test_pages_are_searched_fetched_and_cut_into_paragraphs(
    web: WebSearch, tavily: TavilyServer, pages: PageServer, query: str, slug: str, joint: str
) -> None:
    found, degraded = await web.search(query, 5)
    entry = BY_SLUG[slug]
    assert found[0].url == pages.page_url(slug)
    assert found[0].paragraphs == tuple(f"{entry.title}{joint}{text}" for text in entry.paragraphs)
    assert degraded == ()
    assert tavily.queries == [query]


async def test_where_pages_fail_the_results_speak_for_themselves(
    web: WebSearch, pages: PageServer
) -> None:
    pages.status = 503
    found, degraded = await web.search("lighthouse, bees", 5)
    assert [page.paragraphs for page in found] == [
        (BY_SLUG[page.url.rsplit("/", 1)[1]].paragraphs[0],) for page in found
    ]
    (entry,) = degraded
    assert entry.component == "fetch"
    assert entry.reason.startswith(f"{len(found)} of {len(found)} pages could not be read")
    assert "127.0.0.1 answered 503" in entry.reason


async def test_a_host_that_keeps_failing_is_let_be(
    web: FetchingWebSearch, pages: PageServer
) -> None:
    pages.status = 503
    for _ in range(3):
        await web.search("lighthouse, bees", 5)
    asked = len(pages.requests)
    assert web.page_breakers.openness() == 1

    pages.status = 200
    found, (entry,) = await web.search("lighthouse, bees", 5)
    assert len(pages.requests) == asked
    assert "127.0.0.1 failed 3 times in a row and is asked again in" in entry.reason
    assert all(page.paragraphs for page in found)


async def test_pages_that_are_gone_say_nothing_of_their_host(
    web: FetchingWebSearch, pages: PageServer
) -> None:
    pages.status = 404
    for _ in range(4):
        await web.search("lighthouse, bees", 5)
    assert web.page_breakers.openness() == 0


async def test_one_failed_page_does_not_spoil_the_others(
    reader: PageReader, pages: PageServer
) -> None:
    engine = Found(pages.page_url("bees"), f"{pages.url}/slow", "http://169.254.169.254/", "http:")
    found, degraded = await FetchingWebSearch(engine, reader).search("bees", 5)
    assert len(found) == 4
    assert found[0].paragraphs[0].startswith(BY_SLUG["bees"].title)
    (entry,) = degraded
    assert entry.reason.startswith("3 of 4 pages")
    assert "longer than 0.5 s" in entry.reason
    assert "169.254.169.254 leads to a private address" in entry.reason


async def test_a_failed_page_without_a_text_of_its_own_is_left_out(
    reader: PageReader, pages: PageServer
) -> None:
    engine = Found(f"{pages.url}/pages/none", text=" ")
    found, degraded = await FetchingWebSearch(engine, reader).search("bees", 5)
    assert found == ()
    assert degraded[0].reason.startswith("1 of 1 pages")


async def test_preferred_domains_come_first_and_the_rest_stays(reader: PageReader) -> None:
    urls = [
        "https://a.invalid/1",
        "https://fakewikipedia.org.invalid/2",
        "https://docs.preferred.invalid/3",
        "https://en.wikipedia.org:9/4",
        "https://preferred.invalid/5",
        "https://b.invalid/6",
    ]

    async def nowhere(host: str, port: int) -> Sequence[str]:
        return []

    reader = PageReader(resolve=nowhere)
    web = FetchingWebSearch(Found(*urls), reader, ["Preferred.invalid"])
    found, _ = await web.search("anything", 5)
    assert [page.url[-1] for page in found] == ["3", "4", "5", "1", "2"]
    await web.aclose()


async def test_a_page_is_read_once_however_it_is_named(
    reader: PageReader, pages: PageServer
) -> None:
    url = pages.page_url("bees")
    engine = Found(url, f"{url}#dance", f"{url}/", "http://[", pages.page_url("basalt"))
    found, _ = await FetchingWebSearch(engine, reader).search("bees", 5)
    assert [page.title for page in found] == ["title 0", "title 4"]
    assert len(pages.requests) == 2


async def test_at_most_max_pages_are_read(reader: PageReader, pages: PageServer) -> None:
    engine = Found(*(pages.page_url(slug) for slug in BY_SLUG))
    web = FetchingWebSearch(engine, reader)
    found, _ = await web.search("anything", 2)
    assert len(found) == len(pages.requests) == 2
    assert engine.asked == [("anything", 4)]
    assert await web.search("anything", 0) == ((), ())
    assert await web.search("  ", 5) == ((), ())
    assert len(engine.asked) == 1


async def test_pages_are_fetched_side_by_side(pages: PageServer) -> None:
    pages.together = 5
    reader = PageReader(allowed_private_hosts={pages.address})
    found, degraded = await FetchingWebSearch(
        Found(*(pages.page_url(slug) for slug in BY_SLUG)), reader
    ).search("anything", 5)
    assert len(found) == pages.most_at_once == 5
    assert degraded == ()
    await reader.aclose()


async def test_an_engine_that_keeps_failing_is_let_be(
    tavily: TavilyServer, reader: PageReader
) -> None:
    engine = TavilySearch(TAVILY_KEY, base_url=tavily.url)
    breaker = CircuitBreaker("web_search", open_s=0.3)
    web = FetchingWebSearch(engine, reader, breaker=breaker)
    for status, told in (
        *[(400, "did not accept")] * 4,
        *[(500, "is failing on its side")] * 2,
        (429, "limiting"),
        (200, "failed 3 times in a row and is asked again in 1 s"),
    ):
        tavily.status = status
        with pytest.raises(SearchFailed, match=told):
            await web.search("lighthouse", 5)
    assert len(tavily.requests) == 7
    await asyncio.sleep(0.3)
    assert (await web.search("lighthouse", 5))[0]
    assert breaker.openness() == 0
    await web.aclose()


@pytest.mark.parametrize(("run_s", "opens"), [(0.5, False), (1.5, True)])
async def test_a_silent_engine_gets_what_the_run_has_left(
    tavily: TavilyServer, reader: PageReader, run_s: float, opens: bool
) -> None:
    tavily.delay_s = 30
    breaker = CircuitBreaker("web_search", max_failures=1)
    web = FetchingWebSearch(TavilySearch(TAVILY_KEY, base_url=tavily.url), reader, breaker=breaker)
    started = time.monotonic()
    with (
        run_ends_at(asyncio.get_running_loop().time() + run_s),
        pytest.raises(SearchFailed, match="all that the run's deadline left"),
    ):
        await web.search("lighthouse", 5)
    assert time.monotonic() - started < run_s
    assert breaker.openness() == opens
    await web.aclose()


async def test_pages_get_what_the_run_has_left(pages: PageServer) -> None:
    reader = PageReader(allowed_private_hosts={pages.address})
    web = FetchingWebSearch(Found(f"{pages.url}/drip"), reader)
    started = time.monotonic()
    with run_ends_at(asyncio.get_running_loop().time() + 0.6):
        ((page,), (degraded,)) = await web.search("anything", 5)
    assert time.monotonic() - started < 0.6
    assert page.paragraphs == ("the result's own text",)
    assert "was not read in time" in degraded.reason
    await web.aclose()


async def test_a_run_without_time_does_not_search(tavily: TavilyServer, web: WebSearch) -> None:
    with (
        run_ends_at(asyncio.get_running_loop().time()),
        pytest.raises(SearchFailed, match="was not asked, for the run's deadline left"),
    ):
        await web.search("lighthouse", 5)
    assert tavily.requests == []


async def test_cancelling_stops_the_fetching(reader: PageReader, pages: PageServer) -> None:
    web = FetchingWebSearch(Found(f"{pages.url}/drip"), reader)
    task = asyncio.create_task(web.search("anything", 5))
    await asyncio.sleep(0.2)
    task.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 1


async def test_a_silent_name_server_holds_up_no_answer(
    monkeypatch: pytest.MonkeyPatch, pages: PageServer
) -> None:
    """Neither the search nor the reading of pages waits for look-ups that nobody answers."""
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait())
    monkeypatch.setattr(engines, "SEARCH_TIMEOUT_S", 0.2)
    monkeypatch.setattr(module, "TOTAL_TIMEOUT_S", 0.4)
    started = time.monotonic()
    wikipedia = WikipediaSearch("https://{language}.wiki.example/w/api.php")
    with pytest.raises(SearchFailed, match="did not answer in time"):
        await FetchingWebSearch(wikipedia, PageReader()).search("lighthouse", 5)
    web = FetchingWebSearch(Found("https://page.example/灯塔"), PageReader())
    ((page,), (degraded,)) = await web.search("灯塔", 5)
    assert time.monotonic() - started < 2
    assert page.paragraphs == ("the result's own text",)
    assert "page.example was not read in time" in degraded.reason
    released.set()


PAGE = WebPage("https://example.org/tower", "Tower", 0.9, ("The tower was repaired.",))


async def test_a_kept_search_is_taken_once() -> None:
    ahead = SearchesAhead(FakeWebSearch([PAGE]))
    with ahead.begin("tower", 5) as ticket:
        assert ticket is not None
        ahead.keep(ticket)
    assert await ahead.take(ticket) == ([PAGE], ())
    assert await ahead.take(ticket) is None
    assert ahead.under_way == 0


async def test_a_kept_search_that_nobody_takes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAKE_WITHIN_S", 0)
    web = SlowWebSearch()
    ahead = SearchesAhead(web)
    with ahead.begin("tower", 5) as ticket:
        assert ticket is not None
        await asyncio.sleep(0.01)
        ahead.keep(ticket)
    await asyncio.sleep(0.05)

    assert len(web.waiting.left_s) == 1
    assert (await ahead.take(ticket), ahead.under_way) == (None, 0)


async def test_a_taken_search_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAKE_WITHIN_S", 0)
    waiting = Waiting(0.05)
    ahead = SearchesAhead(SlowWebSearch([PAGE], waiting=waiting))
    with ahead.begin("tower", 5) as ticket:
        assert ticket is not None
        ahead.keep(ticket)

    assert await ahead.take(ticket) == ([PAGE], ())
    assert waiting.left_s == []


async def test_no_more_begin_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_AHEAD", 2)
    ahead = SearchesAhead(SlowWebSearch())
    with ahead.begin("a", 1) as first, ahead.begin("b", 1), ahead.begin("c", 1) as third:
        assert first is not None
        assert third is None
        ahead.keep(first)
    assert ahead.under_way == 1, "what is kept takes its place until it is taken"
    await ahead.aclose()


async def test_a_search_that_fails_unneeded_fails_silently() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    with SearchesAhead(FakeWebSearch(fails=True)).begin("tower", 5):
        await asyncio.sleep(0.01)
    gc.collect(1)  # asyncio tells of an error that nobody took when it forgets the task

    assert told == []


async def test_closing_ends_what_is_under_way() -> None:
    web = SlowWebSearch()
    ahead = SearchesAhead(web)
    with ahead.begin("a", 1), ahead.begin("b", 1) as kept:
        assert kept is not None
        await asyncio.sleep(0.01)
        ahead.keep(kept)
        await ahead.aclose()
        assert len(web.waiting.left_s) == 2
