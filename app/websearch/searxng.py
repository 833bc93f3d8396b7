"""A SearXNG instance, by its JSON interface."""

import asyncio

import httpx

from app.websearch.engine import (
    USER_AGENT,
    SearchResult,
    get_json,
    malformed,
    results_of,
    timeouts,
    unreachable,
)
from graphs.errors import SearchFailed

PROVIDER = "SearXNG"


class SearxngSearch:
    """Raises SearchFailed, too, where the instance has its JSON format switched off."""

    def __init__(
        self, base_url: str, *, timeout_s: float = 10.0, connect_timeout_s: float = 4.0
    ) -> None:
        self._url = f"{base_url.rstrip('/')}/search"
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            timeout=timeouts(timeout_s, connect_timeout_s), headers={"User-Agent": USER_AGENT}
        )

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await get_json(
                    self._http, PROVIDER, self._url, {"q": query, "format": "json"}
                )
        except TimeoutError as error:
            raise unreachable(PROVIDER, self._url, error) from None
        except SearchFailed as failure:
            if "HTTP 403" in str(failure):
                raise SearchFailed(
                    "SearXNG refused the request (HTTP 403); "
                    "its settings.yml must list json under search.formats."
                ) from None
            raise
        hits = reply.get("results")
        if not isinstance(hits, list):
            raise malformed(PROVIDER)
        return results_of(hits, max_results)

    async def aclose(self) -> None:
        await self._http.aclose()
