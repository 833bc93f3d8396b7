"""Search engines: their protocol, Wikipedia, SearXNG, recorded results, and how they fail.

Tavily, whose client takes a moment to import, is a module of its own.
"""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from graphs.errors import SearchFailed
from graphs.text.model_output import whole_characters

USER_AGENT = "self-crag/0.1 (question answering service; python-httpx)"
SEARCH_TIMEOUT_S = 8.0
CONNECT_TIMEOUT_S = 3.0
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Wikipedia joins at most so many introductions to one list of hits.
MAX_WIKIPEDIA_RESULTS = 20
MAX_WIKIPEDIA_QUERY_CHARS = 300
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_BETWEEN_KEYWORDS = re.compile(r"\s*[,，、;；]\s*")
ANY_QUERY = "*"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One hit; `text` is what the engine itself says of the page, `score` its own ranking."""

    url: str
    title: str
    text: str
    score: float


class SearchEngine(Protocol):
    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        """At most `max_results` hits, best first; none found is an empty list, not an error.

        Raises SearchFailed when the engine gives no answer.
        """
        ...

    async def aclose(self) -> None:
        """Release the connections."""
        ...


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
        async with in_time("Wikipedia", url):
            results = await self._ask(url, " ".join(keywords), max_results)
            if not results and len(keywords) > 1:
                # The engine wants every word: few articles hold all of several keywords.
                results = await self._ask(url, " OR ".join(keywords), max_results)
        return results

    async def _ask(self, url: str, query: str, max_results: int) -> list[SearchResult]:
        reply = await get_json(
            self._http,
            "Wikipedia",
            url,
            {
                "action": "query",
                "format": "json",
                "formatversion": 2,
                "generator": "search",
                "gsrsearch": query[:MAX_WIKIPEDIA_QUERY_CHARS],
                "gsrlimit": min(max_results, MAX_WIKIPEDIA_RESULTS),
                "prop": "extracts|info",
                "exintro": 1,
                "explaintext": 1,
                "exlimit": "max",
                "inprop": "url",
            },
        )
        return _wikipedia_results(reply)[:max_results]

    async def aclose(self) -> None:
        await self._http.aclose()


def _wikipedia_results(reply: Mapping[str, Any]) -> list[SearchResult]:
    if "error" in reply:
        raise malformed("Wikipedia")
    query = reply.get("query", {})
    pages = query.get("pages", []) if isinstance(query, Mapping) else None
    if not isinstance(pages, list) or not all(isinstance(page, Mapping) for page in pages):
        raise malformed("Wikipedia")
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
    return index if isinstance(index, int) else MAX_WIKIPEDIA_RESULTS + 1


class SearxngSearch:
    """Raises SearchFailed, too, where the instance has its JSON format switched off."""

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url.rstrip('/')}/search"
        self._http = httpx.AsyncClient(
            timeout=timeouts(SEARCH_TIMEOUT_S), headers={"User-Agent": USER_AGENT}
        )

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        try:
            async with in_time("SearXNG", self._url):
                reply = await get_json(
                    self._http, "SearXNG", self._url, {"q": query, "format": "json"}
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
            raise malformed("SearXNG")
        return results_of(hits, max_results)

    async def aclose(self) -> None:
        await self._http.aclose()


class RecordedResult(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    title: str = ""
    text: str = ""
    score: float | None = None


class Recording(RootModel[dict[str, list[RecordedResult]]]):
    pass


class FixtureSearch:
    """Recorded results: the same every time, without a network.

    The file is a JSON object, UTF-8, from queries to lists of results:

        {
          "light, chlorophyll": [
            {"url": "https://…", "title": "…", "text": "…", "score": 0.9}
          ],
          "*": []
        }

    Case and white space of a query do not matter; "*" answers every query that is not recorded.
    `title`, `text` and `score` may be left out.

    The file is read at once, so that a wrong one shows at start. Raises SearchFailed then.
    """

    def __init__(self, path: Path) -> None:
        try:
            recording = Recording.model_validate_json(path.read_bytes())
        except OSError as error:
            raise SearchFailed(
                f"The recorded searches {path} could not be read: {error.strerror}."
            ) from None
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise SearchFailed(
                f"The recorded searches {path} are not in the expected format"
                f" ({where or 'top level'}: {error.errors()[0]['msg']})."
            ) from None
        self._recorded = {_key(query): results for query, results in recording.root.items()}

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        recorded = self._recorded.get(_key(query), self._recorded.get(ANY_QUERY, []))
        return [
            SearchResult(hit.url, hit.title, hit.text, score_of(hit.score, rank))
            for rank, hit in enumerate(recorded[:max_results])
        ]

    async def aclose(self) -> None:
        """There is nothing to release."""


def _key(query: str) -> str:
    return " ".join(query.casefold().split())


def timeouts(timeout_s: float) -> httpx.Timeout:
    return httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))


@asynccontextmanager
async def in_time(provider: str, url: str) -> AsyncIterator[None]:
    """Raises SearchFailed after SEARCH_TIMEOUT_S, whatever the client waits for."""
    try:
        async with asyncio.timeout(SEARCH_TIMEOUT_S):
            yield
    except TimeoutError as error:
        raise unreachable(provider, url, error) from None


async def get_json(
    client: httpx.AsyncClient, provider: str, url: str, params: Mapping[str, str | int]
) -> Mapping[str, Any]:
    """The JSON object at `url`. Raises SearchFailed for everything else that may come."""
    try:
        response = await client.get(url, params=dict(params))
        response.raise_for_status()
        reply = response.json()
    except httpx.HTTPStatusError as error:
        raise refused(provider, error.response.status_code) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise unreachable(provider, url, error) from None
    except (ValueError, RecursionError):
        raise malformed(provider) from None
    if not isinstance(reply, Mapping):
        raise malformed(provider)
    return reply


def refused(provider: str, status: int) -> SearchFailed:
    """The failure that an HTTP status stands for, with what to check."""
    if status in {401, 403}:
        advice = "refused access; check its key and what that key may do"
    elif status == 429 or status in {432, 433}:
        advice = "is limiting requests; wait a while or raise the limit of the account"
    elif status >= 500:
        advice = "is failing on its side; try again later"
    else:
        advice = "did not accept the request; check its address in the settings"
    return SearchFailed(f"{provider} {advice} (HTTP {status}).")


def unreachable(provider: str, url: str, error: Exception) -> SearchFailed:
    host = urlsplit(url).hostname or "its address"
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return SearchFailed(f"{provider} did not answer in time ({host}); check the network.")
    return SearchFailed(
        f"{provider} could not be reached ({host}); check the network and its address."
    )


def malformed(provider: str) -> SearchFailed:
    return SearchFailed(
        f"{provider} sent a reply that could not be understood; check its address in the settings."
    )


def results_of(hits: Sequence[object], max_results: int) -> list[SearchResult]:
    """The first hits that have an address, each an object with url, title and content."""
    return [
        SearchResult(
            url=url,
            title=text_of(hit.get("title")),
            text=text_of(hit.get("content")),
            score=score_of(hit.get("score"), rank),
        )
        for rank, hit in enumerate(hits[:max_results])
        if isinstance(hit, Mapping) and (url := url_of(hit.get("url")))
    ]


def url_of(value: object) -> str:
    """An http(s) address, empty where there is none: whoever shows a result links to it.

    Control characters, which may show another address than is followed, make it none.
    """
    url = whole_characters(value).strip() if isinstance(value, str) else ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    is_web = parts.scheme in {"http", "https"} and parts.hostname and " " not in parts.netloc
    return url.replace(" ", "%20") if is_web and url.isprintable() else ""


def text_of(value: object) -> str:
    """A string field of a reply, empty where it is missing or of another type.

    Blanks stand for control characters, "�" for halves of a character, where an engine cut one.
    """
    if not isinstance(value, str):
        return ""
    return _CONTROL.sub(" ", whole_characters(value)).strip()


def score_of(value: object, rank: int) -> float:
    """The engine's own score, or one that falls with the rank where it gives none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(score := float(value)):
                return score
        except OverflowError:
            pass
    return 1.0 / (1 + rank)
