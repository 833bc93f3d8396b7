"""Web search: a search engine and a page reader joined, also begun before it is needed."""

import asyncio
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx

from app.resilience.circuit_breaker import CircuitBreaker, HostBreakers
from app.resilience.deadline import NO_TIME, TELLING_S, CallLimit, call_limit, elsewhere, is_outage
from app.websearch.engines import SEARCH_TIMEOUT_S, SearchEngine, WebHit
from app.websearch.html_text import Extract
from app.websearch.page import PAGE_TIMEOUT_S, PageReader
from app.websearch.ssrf_guard import PageFailed
from graphs.errors import SearchFailed
from graphs.ports import WebSearch
from graphs.types import Degraded, WebPage

ALWAYS_PREFERRED = ("wikipedia.org",)
# Preferring means choosing: more is asked for than is read.
RESULTS_PER_PAGE_READ = 2
MAX_RESULTS = 20
MAX_REASONS = 5
TOTAL_TIMEOUT_S = SEARCH_TIMEOUT_S + PAGE_TIMEOUT_S
"""Of a search with its pages: a network or name server that is silent holds up no answer."""
MAX_AHEAD = 8
"""Speculative searches of all runs that nobody has taken yet."""
TAKE_WITHIN_S = 0.5
"""The step that takes a kept search follows at once, unless its run was ended in between."""

Outcome = tuple[Sequence[WebPage], Sequence[Degraded]]
"""The pages, and what went wrong on the way."""


class FetchingWebSearch:
    """Wikipedia and `preferred_domains` (subdomains included) come first, the rest follows."""

    def __init__(
        self,
        engine: SearchEngine,
        reader: PageReader,
        preferred_domains: Collection[str] = (),
        *,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        self._engine = engine
        self._reader = reader
        self.breaker = breaker or CircuitBreaker("web_search")
        self.page_breakers = HostBreakers("pages")
        self._preferred = tuple(
            f".{domain.casefold().strip('.')}" for domain in (*ALWAYS_PREFERRED, *preferred_domains)
        )

    async def search(self, query: str, max_pages: int) -> Outcome:
        if max_pages < 1 or not query.strip():
            return (), ()
        with elsewhere():
            return await self._pages(query, max_pages, call_limit(TOTAL_TIMEOUT_S))

    async def _pages(self, query: str, max_pages: int, limit: CallLimit) -> Outcome:
        results = await self._search(
            query, min(MAX_RESULTS, RESULTS_PER_PAGE_READ * max_pages), limit
        )
        ranked = sorted(
            _distinct(results), key=lambda it: not f".{_host(it.url)}".endswith(self._preferred)
        )
        read = await asyncio.gather(
            *(self._read(result, limit.at) for result in ranked[:max_pages])
        )
        failures = [failure for _, failure in read if failure]
        pages = tuple(page for page, _ in read if page.paragraphs)
        return pages, _degraded(failures, len(read))

    async def _search(self, query: str, max_results: int, limit: CallLimit) -> list[WebHit]:
        """Raises SearchFailed, also where the run's deadline comes first or the breaker is open."""
        if limit.is_over:
            raise _search_failed(NO_TIME)
        began = asyncio.get_running_loop().time()
        with self.breaker.attempt(_search_failed) as attempt:
            try:
                async with asyncio.timeout_at(limit.at):
                    return await attempt.through(self._engine.search(query, max_results))
            except SearchFailed as error:
                attempt.has_failed = _is_down(error)
                raise
            except TimeoutError:
                waited_s = asyncio.get_running_loop().time() - began
                attempt.has_failed = is_outage(limit, waited_s)
                raise _search_failed(f"did not answer within {limit}") from None

    async def _read(self, result: WebHit, deadline: float | None) -> tuple[WebPage, str]:
        """The page, and why it is made of the result's own text where it is."""
        host = _host(result.url)
        try:
            page = await self._paragraphs(result.url, host, deadline)
        except PageFailed as failure:
            own_text = tuple(line for line in map(str.strip, result.text.splitlines()) if line)
            reason = f"{host or 'a result without a host'} {failure}"
            return WebPage(result.url, result.title, result.score, own_text), reason
        title = result.title or page.title
        return WebPage(result.url, title, result.score, page.paragraphs), ""

    async def _paragraphs(self, url: str, host: str, deadline: float | None) -> Extract:
        """Raises PageFailed, also where the host's breaker is open."""
        began_s = time.monotonic()
        with self.page_breakers.attempt(host, PageFailed) as attempt:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt.through(self._reader.read(url))
            except PageFailed as failure:
                attempt.has_failed = failure.is_outage
                raise
            except TimeoutError:
                # In less time other pages may have held it up, which says nothing of its host.
                attempt.has_failed = time.monotonic() - began_s >= TELLING_S
                raise PageFailed("was not read in time") from None

    async def aclose(self) -> None:
        await self._engine.aclose()
        await self._reader.aclose()


class SearchesAhead:
    """Speculative searches: at most MAX_AHEAD of all runs at once; beyond it none begins.

    A search ends with the block it began in, unless it was kept; a kept one ends when nobody
    takes it within TAKE_WITHIN_S. So none outlives its run by more than that.
    """

    def __init__(self, web_search: WebSearch) -> None:
        self._web_search = web_search
        self._running: dict[str, asyncio.Future[Outcome]] = {}
        self._retained: dict[str, asyncio.Future[Outcome]] = {}

    @property
    def under_way(self) -> int:
        return len(self._running) + len(self._retained)

    @contextmanager
    def begin(self, query: str, max_pages: int) -> Iterator[str | None]:
        if self.under_way >= MAX_AHEAD:
            yield None
            return
        ticket = uuid.uuid4().hex
        self._running[ticket] = asyncio.ensure_future(self._web_search.search(query, max_pages))
        try:
            yield ticket
        finally:
            _cancel(self._running, ticket)

    def keep(self, ticket: str) -> None:
        self._retained[ticket] = self._running.pop(ticket)
        asyncio.get_running_loop().call_later(TAKE_WITHIN_S, _cancel, self._retained, ticket)

    async def take(self, ticket: str) -> Outcome | None:
        task = self._retained.pop(ticket, None)
        return None if task is None else await task

    async def aclose(self) -> None:
        left = [*self._running.values(), *self._retained.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _cancel(tasks: dict[str, asyncio.Future[Outcome]], ticket: str) -> None:
    # Cancelling one that has failed already keeps asyncio from reporting its error, too.
    if ticket in tasks:
        tasks.pop(ticket).cancel()


def _search_failed(what: str) -> SearchFailed:
    return SearchFailed(f"The web search {what}.")


def _is_down(error: SearchFailed) -> bool:
    """Whether the engine itself failed: engines raise SearchFailed while handling what HTTP did."""
    match error.__context__:
        case httpx.HTTPStatusError(response=response):
            return response.status_code == 429 or response.status_code >= 500
        case cause:
            return isinstance(cause, TimeoutError | httpx.TransportError)


def _degraded(failures: Sequence[str], tried: int) -> tuple[Degraded, ...]:
    if not failures:
        return ()
    reasons = list(dict.fromkeys(failures))
    shown = "; ".join(reasons[:MAX_REASONS]) + ("; …" if len(reasons) > MAX_REASONS else "")
    return (
        Degraded(
            "fetch",
            f"{len(failures)} of {tried} pages could not be read, so the search results' own text"
            f" stands for them: {shown}.",
        ),
    )


def _distinct(results: Iterable[WebHit]) -> list[WebHit]:
    """The results without those that name a page again, by another fragment or scheme."""
    first: dict[tuple[str, str, str], WebHit] = {}
    for result in results:
        try:
            parts = urlsplit(result.url)
        except ValueError:
            continue
        first.setdefault((parts.netloc.casefold(), parts.path.rstrip("/"), parts.query), result)
    return list(first.values())


def _host(url: str) -> str:
    """Only called with URLs that `_distinct` could split."""
    return (urlsplit(url).hostname or "").casefold()
