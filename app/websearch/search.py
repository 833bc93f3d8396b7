"""A search engine and a page reader joined into the port the graphs know."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import urlsplit

from app.websearch.engine import SearchEngine, SearchResult
from app.websearch.page import PageReader
from app.websearch.ssrf_guard import PageFailed
from graphs.types import Degraded, WebPage

ALWAYS_PREFERRED = ("wikipedia.org",)
# Preferring means choosing: more is asked for than is read.
RESULTS_PER_PAGE_READ = 2
MOST_RESULTS = 20
MOST_REASONS = 5


class FetchingWebSearch:
    """Wikipedia and `preferred_domains` (subdomains included) come first, the rest follows."""

    def __init__(
        self, engine: SearchEngine, reader: PageReader, preferred_domains: Collection[str] = ()
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._preferred = tuple(
            domain.casefold().strip(".") for domain in (*ALWAYS_PREFERRED, *preferred_domains)
        )

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        if max_pages < 1 or not query.strip():
            return (), ()
        found = await self._engine.search(
            query, min(MOST_RESULTS, RESULTS_PER_PAGE_READ * max_pages)
        )
        ranked = sorted(_distinct(found), key=lambda result: not self._is_preferred(result.url))
        read = await asyncio.gather(*(self._read(result) for result in ranked[:max_pages]))
        failures = [failure for _, failure in read if failure]
        pages = tuple(page for page, _ in read if page.paragraphs)
        return pages, _degraded(failures, len(read))

    def _is_preferred(self, url: str) -> bool:
        host = f".{_host(url)}"
        return any(host.endswith(f".{domain}") for domain in self._preferred)

    async def _read(self, result: SearchResult) -> tuple[WebPage, str]:
        """The page, and why it is made of the result's own text where it is."""
        try:
            page = await self._reader.read(result.url)
        except PageFailed as failure:
            own_text = tuple(line for line in map(str.strip, result.text.splitlines()) if line)
            reason = f"{_host(result.url) or 'a result without a host'} {failure}"
            return WebPage(result.url, result.title, result.score, own_text), reason
        title = result.title or page.title
        return (
            WebPage(result.url, title, result.score, page.paragraphs, page.fetched_at),
            "",
        )

    async def aclose(self) -> None:
        await self._engine.aclose()
        await self._reader.aclose()


def _degraded(failures: Sequence[str], tried: int) -> tuple[Degraded, ...]:
    if not failures:
        return ()
    reasons = list(dict.fromkeys(failures))
    told = "; ".join(reasons[:MOST_REASONS]) + ("; …" if len(reasons) > MOST_REASONS else "")
    return (
        Degraded(
            "fetch",
            f"{len(failures)} of {tried} pages could not be read, so the search results' own text"
            f" stands for them: {told}.",
        ),
    )


def _distinct(results: Iterable[SearchResult]) -> list[SearchResult]:
    """The results without those that name a page again, by another fragment or scheme."""
    first: dict[tuple[str, str, str], SearchResult] = {}
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
