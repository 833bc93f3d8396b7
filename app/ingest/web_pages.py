"""Pages and sitemaps of the web as documents: read politely, and only where they changed."""

import asyncio
import json
import re
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import httpx
from protego import Protego

from app.ingest.errors import DocumentRefused
from app.ingest.files import Listed
from app.ingest.loaders.by_suffix import BINARY, READERS
from app.ingest.sitemap import host_of, joined, parsed, too_large
from app.retrieval.index import StoredDocument
from app.websearch.html_text import decode
from app.websearch.page import (
    HTML_TYPES,
    MOST_REDIRECTS,
    PLAIN_TYPES,
    Download,
    PageAnswered,
    PageReader,
)
from app.websearch.ssrf_guard import WEB_PORTS, PageFailed, Resolve, resolve_addresses

AGENT = "self-crag"
MOST_BYTES = 10_000_000
MOST_SITEMAPS = 50
MOST_AT_ONCE = 4
LONGEST_DELAY_S = 10.0
TOO_MANY = 429
# By the kind that is sent; else by the end of the address.
SUFFIXES = (
    dict.fromkeys(HTML_TYPES, ".html")
    | dict.fromkeys(PLAIN_TYPES, ".txt")
    | {
        "text/markdown": ".md",
        "text/csv": ".csv",
        "text/tab-separated-values": ".tsv",
        "application/json": ".json",
        "application/x-ndjson": ".jsonl",
        "application/pdf": ".pdf",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    }
)
UNNAMED = re.compile(r"[^\w.-]+")


class Unchanged(Exception):
    """The page is as it was when it was read last."""


class Redirected(PageFailed):
    """The page is elsewhere, where other rules may hold."""

    def __init__(self, url: str) -> None:
        super().__init__("redirects")
        self.url = url


class OneHop(PageReader):
    """Follows no redirect, but tells of it."""

    async def _follow(self, request: httpx.Request) -> Download:
        response = await self._http.send(request, stream=True, follow_redirects=False)
        async with aclosing(response):
            if response.next_request is not None:
                raise Redirected(str(response.next_request.url))
            return await self._receive(response)


class Site:
    """Downloads pages within the rules of their hosts; close it with `aclose`.

    What servers said of a page's version is kept in `validators`, a file. `pause_s` lies between
    two requests to one host, or what its robots.txt asks for.
    """

    def __init__(
        self,
        validators: Path,
        *,
        max_pages: int,
        allowed_private_hosts: Collection[str] = (),
        ports: Collection[int] = WEB_PORTS,
        timeout_s: float = 20.0,
        pause_s: float = 0.2,
        resolve: Resolve = resolve_addresses,
    ) -> None:
        self.max_pages = max_pages
        self._pause_s = pause_s
        self._reader = OneHop(
            allowed_private_hosts=allowed_private_hosts,
            ports=ports,
            max_bytes=MOST_BYTES,
            timeout_s=timeout_s,
            max_concurrent=MOST_AT_ONCE,
            media_types=(),
            resolve=resolve,
        )
        self._robots: dict[str, asyncio.Task[Protego | None]] = {}
        self._next_at: dict[str, float] = {}
        self._file = validators
        self._validators: dict[str, tuple[str, str]] = _validators(validators)
        self._known: set[str] = set()

    def expect(self, known: Iterable[StoredDocument]) -> None:
        """Of these documents only newer versions are asked for."""
        self._known = {document.source for document in known}

    @asynccontextmanager
    async def download(self, url: str) -> AsyncIterator[Path]:
        """The page as a file that any loader reads. Raises DocumentRefused, Unchanged."""
        download = await self.fetch(url, self._conditions(url))
        suffix = SUFFIXES.get(download.media_type, Path(urlsplit(url).path).suffix.lower())
        if suffix not in READERS:
            raise DocumentRefused(f"is of a kind that cannot be read: {download.media_type}")
        self._validators[url] = (download.etag, download.last_modified)
        with tempfile.TemporaryDirectory(prefix="selfcrag-page-") as folder:
            file = Path(folder, _name(url) + suffix)
            await asyncio.to_thread(file.write_bytes, _readable(download, suffix))
            yield file

    async def fetch(self, url: str, headers: dict[str, str] | None = None) -> Download:
        """Raises DocumentRefused, and Unchanged where `headers` ask for what is newer."""
        try:
            download = await self._followed(url, headers, is_polite=True)
        except PageAnswered as answer:
            if answer.status == 304:
                raise Unchanged from None
            may_pass = answer.status == TOO_MANY or answer.status >= 500
            raise DocumentRefused(str(answer), may_pass=may_pass) from None
        except PageFailed as failure:
            raise DocumentRefused(str(failure), may_pass=True) from None
        if len(download.body) >= MOST_BYTES:
            raise too_large(MOST_BYTES)
        return download

    async def _followed(
        self, url: str, headers: dict[str, str] | None = None, *, is_polite: bool = False
    ) -> Download:
        """By redirects, asking each place's rules if polite. Raises DocumentRefused, PageFailed."""
        for _ in range(MOST_REDIRECTS + 1):
            if is_polite:
                robots = await self._robots_of(url)
                if robots is not None and not robots.can_fetch(url, AGENT):
                    raise DocumentRefused("its robots.txt asks not to read it")
                await self._wait(url, robots)
            try:
                return await self._reader.download(url, headers)
            except Redirected as elsewhere:
                url = elsewhere.url
        raise PageFailed(f"redirects more than {MOST_REDIRECTS} times")

    def keep(self, sources: Iterable[str]) -> None:
        """Remembers the versions of pages that are in the knowledge base now."""
        kept = {url: self._validators[url] for url in sources if url in self._validators}
        merged = _validators(self._file) | kept
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(merged), encoding="utf-8")
        new.replace(self._file)

    async def aclose(self) -> None:
        for task in self._robots.values():
            task.cancel()
        await self._reader.aclose()

    def _conditions(self, url: str) -> dict[str, str]:
        if url not in self._known:
            return {}
        etag, modified = self._validators.get(url, ("", ""))
        headers = {"If-None-Match": etag, "If-Modified-Since": modified}
        return {name: value for name, value in headers.items() if value}

    async def _robots_of(self, url: str) -> Protego | None:
        """The host's rules, asked for once; None where it has none. Raises PageFailed."""
        root = urljoin(url, "/robots.txt")
        if root not in self._robots:
            self._robots[root] = asyncio.create_task(self._read_robots(root))
        return await asyncio.shield(self._robots[root])

    async def _read_robots(self, root: str) -> Protego | None:
        try:
            download = await self._followed(root)
        except PageAnswered as answer:
            if 400 <= answer.status < 500:
                return None
            raise PageFailed(f"cannot tell its rules: robots.txt {answer}") from None
        return Protego.parse(decode(download.body[:500_000], "text/plain; charset=utf-8"))

    async def _wait(self, url: str, robots: Protego | None) -> None:
        """Until it is this request's turn at the host."""
        asked = robots.crawl_delay(AGENT) if robots is not None else None
        delay = self._pause_s if asked is None else min(float(asked), LONGEST_DELAY_S)
        host, now = urlsplit(url).netloc, asyncio.get_running_loop().time()
        turn = max(now, self._next_at.get(host, 0.0))
        self._next_at[host] = turn + delay
        await asyncio.sleep(turn - now)


async def pages(
    urls: Sequence[str], site: Site, known: Sequence[StoredDocument], chunking: str
) -> tuple[list[Listed], list[tuple[str, str]]]:
    """The pages that `urls` name, those of their sitemaps included, and (URL, why) it was not."""
    # One that was cut another way is read again, newer or not.
    site.expect(document for document in known if document.chunking in {"", chunking})
    by_source = {document.source: document for document in known}
    found: dict[str, None] = {}
    refused: list[tuple[str, str]] = []
    for url in urls:
        if not is_sitemap(url):
            found[urldefrag(url).url] = None
            continue
        listed, without = await _listed_in(url, site)
        found |= dict.fromkeys(listed)
        refused += without
    if len(found) > site.max_pages:
        refused.append((urls[-1], f"more than {site.max_pages} pages; the rest was left out"))
    chosen = list(found)[: site.max_pages]
    return [Listed(Path(), "", url, by_source.get(url), is_page=True) for url in chosen], refused


def is_url(name: str) -> bool:
    return name.lower().startswith(("http://", "https://"))


def is_sitemap(url: str) -> bool:
    return urlsplit(url).path.lower().endswith((".xml", ".xml.gz"))


async def _listed_in(sitemap: str, site: Site) -> tuple[list[str], list[tuple[str, str]]]:
    """Pages of a sitemap and of those it names, all of its own host."""
    host, waiting, seen = host_of(sitemap), deque([sitemap]), {sitemap}
    found: list[str] = []
    refused: list[tuple[str, str]] = []
    read = 0
    while waiting and read < MOST_SITEMAPS and len(found) <= site.max_pages:
        here, read = waiting.popleft(), read + 1
        try:
            kind, named = await asyncio.to_thread(parsed, await site.fetch(here), MOST_BYTES)
        except DocumentRefused as refusal:
            refused.append((here, refusal.reason))
            continue
        for address in named:
            url = joined(here, address)
            if not is_url(url):
                refused.append((address, "is no address of a page"))
            elif host_of(url) != host:
                refused.append((url, "is of another host than the sitemap that names it"))
            elif kind == "urlset":
                found.append(urldefrag(url).url)
            elif url not in seen:
                seen.add(url)
                waiting.append(url)
    if waiting:
        refused.append((sitemap, f"{len(waiting)} of its sitemaps were left out"))
    return found, refused


def _readable(download: Download, suffix: str) -> bytes:
    """Text in UTF-8, whatever its server or the page itself says of its encoding."""
    kind, _, options = download.content_type.casefold().partition(";")
    is_declared = "charset" in options and suffix not in BINARY
    if not is_declared and kind.strip() not in HTML_TYPES | PLAIN_TYPES:
        return download.body
    return decode(download.body, download.content_type).encode("utf-8-sig", "replace")


def _name(url: str) -> str:
    """What a page without a title is called."""
    parts = urlsplit(url)
    last = Path(unquote(parts.path)).stem or (parts.hostname or "")
    return UNNAMED.sub("-", last)[:60].strip("-.") or "page"


def _validators(file: Path) -> dict[str, tuple[str, str]]:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return {str(url): (str(etag), str(modified)) for url, (etag, modified) in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
