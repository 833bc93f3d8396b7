"""Page reader: a URL to its paragraphs, within bounds that no page can stretch."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from http.cookiejar import DefaultCookiePolicy
from typing import cast

import httpx

from app.websearch import html_text, ssrf_guard
from app.websearch.engines import USER_AGENT, timeouts

MAX_REDIRECTS = 3
MAX_BYTES = 2_000_000
PAGE_TIMEOUT_S = 8.0
MAX_CONCURRENT = 10
MAX_PARAGRAPHS = 80
MAX_CHARS = 40_000
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
PLAIN_TYPES = frozenset({"text/plain"})


@dataclass(frozen=True, slots=True)
class Download:
    """The first bytes of a page, decompressed, and its Content-Type as sent."""

    body: bytes
    content_type: str

    @property
    def media_type(self) -> str:
        return self.content_type.partition(";")[0].strip().casefold()


class PageReader:
    """Fetches and reads pages; `max_bytes` counts after decompression, the rest is cut off.

    `timeout_s` bounds a page with all its redirects, MAX_CONCURRENT the pages of all runs.
    Pages of other `media_types` are refused; none given takes all.
    """

    def __init__(
        self,
        *,
        allowed_private_hosts: Collection[str] = (),
        max_bytes: int = MAX_BYTES,
        timeout_s: float = PAGE_TIMEOUT_S,
        media_types: Collection[str] = HTML_TYPES | PLAIN_TYPES,
        resolve: ssrf_guard.Resolve = ssrf_guard.resolve_addresses,
    ) -> None:
        self._max_bytes = max_bytes
        self._media_types = frozenset(media_types)
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._http = httpx.AsyncClient(
            transport=ssrf_guard.GuardedTransport(
                allowed_private_hosts=allowed_private_hosts, resolve=resolve
            ),
            timeout=timeouts(timeout_s),
            headers={
                "User-Agent": USER_AGENT,
                "Accept": "text/html,application/xhtml+xml,text/plain;q=0.8",
                "Accept-Encoding": "gzip",
            },
            trust_env=False,
        )
        # One page's cookies are no business of the next.
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def read(self, url: str) -> html_text.Extract:
        """Raises PageFailed, which says why the page cannot be used."""
        async with self._slots:
            download = await self._download(url)
            try:
                extract = await asyncio.to_thread(_extract, download)
            except html_text.TooNested:
                raise ssrf_guard.PageFailed("is nested too deeply to be read safely") from None
        if not extract.paragraphs:
            raise ssrf_guard.PageFailed("has no readable paragraphs")
        return extract

    async def download(self, url: str) -> Download:
        """The page as it was sent. Raises PageFailed."""
        async with self._slots:
            return await self._download(url)

    async def _download(self, url: str) -> Download:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._follow(self._http.build_request("GET", url))
        except (TimeoutError, httpx.TimeoutException):
            reason = f"took longer than {self._timeout_s:g} s"
            raise ssrf_guard.PageFailed(reason, is_outage=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, zlib.error) as error:
            raise ssrf_guard.PageFailed(
                "could not be reached or broke off",
                is_outage=isinstance(error, httpx.TransportError),
            ) from None

    async def _follow(self, request: httpx.Request) -> Download:
        # Redirects are followed here, for the client would read their bodies, however long.
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._http.send(request, stream=True, follow_redirects=False)
            async with aclosing(response):
                if response.next_request is None:
                    return await self._receive(response)
                request = response.next_request
        raise ssrf_guard.PageFailed(f"redirects more than {MAX_REDIRECTS} times")

    async def _receive(self, response: httpx.Response) -> Download:
        page = Download(b"", response.headers.get("Content-Type", ""))
        if response.status_code != 200:
            status = response.status_code
            is_outage = status == 429 or status >= 500
            raise ssrf_guard.PageFailed(f"answered {status}", status, is_outage=is_outage)
        if self._media_types and page.media_type not in self._media_types:
            raise ssrf_guard.PageFailed("is neither HTML nor plain text")
        encoding = response.headers.get("Content-Encoding", "identity").strip().casefold()
        if encoding not in {"gzip", "x-gzip", "identity", ""}:
            raise ssrf_guard.PageFailed("has an unsupported content encoding")
        # httpx would inflate a whole chunk at once; zlib itself knows where to stop.
        inflate = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
        body = bytearray()
        raw = cast("AsyncGenerator[bytes]", response.aiter_raw())
        async with aclosing(raw) as chunks:
            async for chunk in chunks:
                room = self._max_bytes - len(body)
                body += inflate.decompress(chunk, room) if inflate else chunk[:room]
                if len(body) >= self._max_bytes:
                    break
        return replace(page, body=bytes(body))

    async def aclose(self) -> None:
        await self._http.aclose()


def _extract(page: Download) -> html_text.Extract:
    text = html_text.decode(page.body, page.content_type)
    if page.media_type in HTML_TYPES:
        return html_text.html_paragraphs(text, MAX_PARAGRAPHS, MAX_CHARS)
    return html_text.plain_paragraphs(text, MAX_PARAGRAPHS, MAX_CHARS)
