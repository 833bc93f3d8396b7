"""Wikipedia, by its public API: full-text search with the introductions of the articles."""

import re
from collections.abc import Mapping
from typing import Any

import httpx

from app.websearch.engine import (
    SEARCH_TIMEOUT_S,
    USER_AGENT,
    SearchResult,
    get_json,
    in_time,
    malformed,
    text_of,
    timeouts,
    url_of,
)

PROVIDER = "Wikipedia"
# The API joins at most this many introductions to one list of hits.
MAX_RESULTS = 20
MAX_QUERY_CHARS = 300
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_BETWEEN_KEYWORDS = re.compile(r"\s*[,，、;；]\s*")


class WikipediaSearch:
    """Asks the Wikipedia of the query's language; `{language}` in `api_url` becomes en or zh."""

    def __init__(self, api_url: str = "https://{language}.wikipedia.org/w/api.php") -> None:
        self._api_url = api_url
        self._http = httpx.AsyncClient(
            timeout=timeouts(SEARCH_TIMEOUT_S),
            headers={"User-Agent": USER_AGENT},
            follow_redirects=True,
            max_redirects=3,
        )

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        language = "zh" if _CHINESE.search(query) else "en"
        url = self._api_url.replace("{language}", language)
        keywords = [word for word in _BETWEEN_KEYWORDS.split(query.strip()) if word]
        async with in_time(PROVIDER, url):
            results = await self._ask(url, " ".join(keywords), max_results)
            if not results and len(keywords) > 1:
                # The engine wants every word: few articles hold all of several keywords.
                results = await self._ask(url, " OR ".join(keywords), max_results)
        return results

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
                "gsrsearch": query[:MAX_QUERY_CHARS],
                "gsrlimit": min(max_results, MAX_RESULTS),
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
    query = reply.get("query", {})
    pages = query.get("pages", []) if isinstance(query, Mapping) else None
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
    return index if isinstance(index, int) else MAX_RESULTS + 1
