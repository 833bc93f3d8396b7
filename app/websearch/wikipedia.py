"""Wikipedia's public API: full-text search with the introductions of the articles found."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import httpx

from app.websearch.engine import (
    USER_AGENT,
    SearchResult,
    get_json,
    malformed,
    text_of,
    timeouts,
    unreachable,
    url_of,
)

PROVIDER = "Wikipedia"
# The API joins at most this many introductions to one list of hits.
MOST_RESULTS = 20
MOST_QUERY_CHARACTERS = 300
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_BETWEEN_KEYWORDS = re.compile(r"\s*[,，、;；]\s*")


class WikipediaSearch:
    """Asks the Wikipedia of the query's language; `{language}` in `api_url` becomes en or zh."""

    def __init__(
        self,
        *,
        api_url: str = "https://{language}.wikipedia.org/w/api.php",
        user_agent: str = USER_AGENT,
        timeout_s: float = 8.0,
        connect_timeout_s: float = 3.0,
    ) -> None:
        self._api_url = api_url
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            timeout=timeouts(timeout_s, connect_timeout_s),
            headers={"User-Agent": user_agent},
            follow_redirects=True,
            max_redirects=3,
        )

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        language = "zh" if _CHINESE.search(query) else "en"
        url = self._api_url.replace("{language}", language)
        keywords = [word for word in _BETWEEN_KEYWORDS.split(query.strip()) if word]
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._ask(url, " ".join(keywords), max_results)
                if not found and len(keywords) > 1:
                    # The engine wants every word: few articles hold all of several keywords.
                    found = await self._ask(url, " OR ".join(keywords), max_results)
        except TimeoutError as error:
            raise unreachable(PROVIDER, url, error) from None
        return found

    async def _ask(self, url: str, query: str, max_results: int) -> list[SearchResult]:
        reply = await get_json(
            self._http,
            PROVIDER,
            url,
            {
                "action": "query",
                "format": "json",
                "formatversion": 2,
                "generator": "search",
                "gsrsearch": query[:MOST_QUERY_CHARACTERS],
                "gsrlimit": min(max_results, MOST_RESULTS),
                "prop": "extracts|info",
                "exintro": 1,
                "explaintext": 1,
                "exlimit": "max",
                "inprop": "url",
            },
        )
        return _results(reply)[:max_results]

    async def aclose(self) -> None:
        await self._http.aclose()


def _results(reply: Mapping[str, Any]) -> list[SearchResult]:
    if "error" in reply:
        raise malformed(PROVIDER)
    found = reply.get("query", {})
    pages = found.get("pages", []) if isinstance(found, Mapping) else None
    if not isinstance(pages, list) or not all(isinstance(page, Mapping) for page in pages):
        raise malformed(PROVIDER)
    # The pages come unordered; `index` is their rank in the search.
    ranked = sorted(pages, key=_rank)
    return [
        SearchResult(
            url=url,
            title=text_of(page.get("title")),
            text=text_of(page.get("extract")),
            score=1.0 / (1 + rank),
        )
        for rank, page in enumerate(ranked)
        if (url := url_of(page.get("fullurl")))
    ]


def _rank(page: Mapping[str, Any]) -> int:
    index = page.get("index")
    return index if isinstance(index, int) else MOST_RESULTS + 1
