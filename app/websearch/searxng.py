"""SearXNG, by its JSON interface."""

import httpx

from app.websearch.engine import (
    SEARCH_TIMEOUT_S,
    USER_AGENT,
    SearchResult,
    get_json,
    in_time,
    malformed,
    results_of,
    timeouts,
)
from graphs.errors import SearchFailed

PROVIDER = "SearXNG"


class SearxngSearch:
    """Raises SearchFailed, too, where the instance has its JSON format switched off."""

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url.rstrip('/')}/search"
        self._http = httpx.AsyncClient(
            timeout=timeouts(SEARCH_TIMEOUT_S), headers={"User-Agent": USER_AGENT}
        )

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        try:
            async with in_time(PROVIDER, self._url):
                reply = await get_json(
                    self._http, PROVIDER, self._url, {"q": query, "format": "json"}
                )
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
