"""Search engines: their protocol, Wikipedia, SearXNG, Tavily, recorded results."""

import asyncio
import math
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from graphs.errors import SearchFailed
from graphs.text.model_output import printable, whole_characters

USER_AGENT = "self-crag/0.1 (question answering service; python-httpx)"
TAVILY_URL = "https://api.tavily.com"
WIKIPEDIA_URL = "https://{language}.wikipedia.org/w/api.php"
SEARCH_TIMEOUT_S = 8.0
CONNECT_TIMEOUT_S = 3.0
MAX_REPLY_BYTES = 8_000_000
MAX_RESULTS = 20
"""The most that Tavily gives, and that Wikipedia joins to their introductions."""
MAX_WIKIPEDIA_QUERY_CHARS, MAX_TAVILY_QUERY_CHARS = 300, 400
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_BETWEEN_KEYWORDS = re.compile(r"\s*[,，、;；]\s*")
ANY_QUERY = "*"
# What reading a reply raises that is not the JSON expected.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class WebHit:
    """One hit; `text` is what the engine itself says of the page, `score` its own ranking."""

    url: str
    title: str
    text: str
    score: float


class SearchEngine(Protocol):
    async def search(self, query: str, max_results: int) -> list[WebHit]:
        """At most `max_results` hits, best first; none found is an empty list, not an error.

        Raises SearchFailed when the engine gives no answer.
        """

    async def aclose(self) -> None:
        """Release the connections."""


class HttpSearch(ABC):
    """An engine behind HTTP, bounded in time; an adapter builds its request and reads its reply."""

    provider = ""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx.AsyncClient(
            timeout=timeouts(SEARCH_TIMEOUT_S),
            # A compressed reply could grow in memory to a thousand times its size.
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            follow_redirects=True,
            max_redirects=3,
            event_hooks={"response": [_raise_for_error, _bound]},
        )

    async def search(self, query: str, max_results: int) -> list[WebHit]:
        try:
            async with asyncio.timeout(SEARCH_TIMEOUT_S):
                return await self._search(query, max_results)
        except httpx.HTTPStatusError as error:
            raise SearchFailed(self._refusal(error.response.status_code)) from None
        except ReplyTooLarge:
            problem = f"sent more than {MAX_REPLY_BYTES // 10**6} MB, which was not read on"
            raise self._failed(query, problem) from None
        except (TimeoutError, httpx.TimeoutException):
            raise self._failed(query, "did not answer in time ({}); check the network") from None
        except (httpx.HTTPError, httpx.InvalidURL):
            problem = "could not be reached ({}); check the network and its address"
            raise self._failed(query, problem) from None
        except MALFORMED:
            problem = "sent a reply that could not be understood; check its address in the settings"
            raise self._failed(query, problem) from None

    @abstractmethod
    async def _search(self, query: str, max_results: int) -> list[WebHit]:
        """Raises what httpx does, and MALFORMED."""

    async def aclose(self) -> None:
        await self._http.aclose()

    def _hits(self, reply: Mapping[str, Any], max_results: int) -> list[WebHit]:
        """The first hits that have an address, each an object with url, title and content.

        The page's whole text, where an engine sends it, stands in for a page that cannot be read.
        """
        hits = reply["results"]
        if not isinstance(hits, list):
            raise TypeError
        return [
            WebHit(
                url=url,
                title=text_of(hit.get("title")),
                text=text_of(hit.get("raw_content") or hit.get("content")),
                score=score_of(hit.get("score"), rank),
            )
            for rank, hit in enumerate(hits[:max_results])
            if isinstance(hit, Mapping) and (url := url_of(hit.get("url")))
        ]

    def _refusal(self, status: int) -> str:
        if status in {401, 403}:
            advice = "refused access; check its key and what that key may do"
        elif status in {429, 432, 433}:
            advice = "is limiting requests; wait a while or raise the limit of the account"
        elif status >= 500:
            advice = "is failing on its side; try again later"
        else:
            advice = "did not accept the request; check its address in the settings"
        return f"{self.provider} {advice} (HTTP {status})."

    def _address(self, query: str) -> str:  # noqa: ARG002 - an adapter may
        """Where the query is sent."""
        return self._url

    def _failed(self, query: str, problem: str) -> SearchFailed:
        host = urlsplit(self._address(query)).hostname or "its address"
        return SearchFailed(f"{self.provider} {problem.format(host)}.")


async def _raise_for_error(response: httpx.Response) -> None:
    if response.is_error:
        response.raise_for_status()


class ReplyTooLarge(Exception):
    """The reply is larger than MAX_REPLY_BYTES."""


class BoundedStream(httpx.AsyncByteStream):
    """A body that raises ReplyTooLarge where it goes on beyond MAX_REPLY_BYTES."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for chunk in self._stream:
            received += len(chunk)
            if received > MAX_REPLY_BYTES:
                raise ReplyTooLarge
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx.Response) -> None:
    """Before a body is read. Raises ValueError where it is compressed, which was not asked for."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().casefold()
    if encoding not in {"", "identity"}:
        raise ValueError
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = BoundedStream(response.stream)


class WikipediaSearch(HttpSearch):
    """Asks the Wikipedia of the query's language; `{language}` in the address becomes en or zh."""

    provider = "Wikipedia"

    def __init__(self, api_url: str = WIKIPEDIA_URL) -> None:
        super().__init__(api_url)

    def _address(self, query: str) -> str:
        return self._url.replace("{language}", "zh" if _CHINESE.search(query) else "en")

    async def _search(self, query: str, max_results: int) -> list[WebHit]:
        url = self._address(query)
        keywords = [word for word in _BETWEEN_KEYWORDS.split(query.strip()) if word]
        results = await self._ask(url, " ".join(keywords), max_results)
        if not results and len(keywords) > 1:
            # The engine wants every word: few articles hold all of several keywords.
            results = await self._ask(url, " OR ".join(keywords), max_results)
        return results

    async def _ask(self, url: str, query: str, max_results: int) -> list[WebHit]:
        params: dict[str, str | int] = {
            "action": "query",
            "format": "json",
            "formatversion": 2,
            "generator": "search",
            "gsrsearch": query[:MAX_WIKIPEDIA_QUERY_CHARS],
            "gsrlimit": min(max_results, MAX_RESULTS),
            "prop": "extracts|info",
            "exintro": 1,
            "explaintext": 1,
            "exlimit": "max",
            "inprop": "url",
        }
        reply = (await self._http.get(url, params=params)).json()
        pages = reply.get("query", {}).get("pages", [])
        if "error" in reply or not isinstance(pages, list):
            raise TypeError
        # The pages come unordered; `index` is their rank in the search.
        ranked = sorted(pages, key=_rank)
        return [
            WebHit(url, text_of(page.get("title")), text_of(page.get("extract")), 1.0 / (1 + rank))
            for rank, page in enumerate(ranked[:max_results])
            if (url := url_of(page.get("fullurl")))
        ]


def _rank(page: Mapping[str, object]) -> int:
    index = page.get("index")
    return index if isinstance(index, int) else MAX_RESULTS + 1


class SearxngSearch(HttpSearch):
    """A SearXNG instance, whose JSON format must be switched on."""

    provider = "SearXNG"

    async def _search(self, query: str, max_results: int) -> list[WebHit]:
        params = {"q": query, "format": "json"}
        response = await self._http.get(f"{self._url.rstrip('/')}/search", params=params)
        return self._hits(response.json(), max_results)

    def _refusal(self, status: int) -> str:
        if status != 403:
            return super()._refusal(status)
        return (
            "SearXNG refused the request (HTTP 403); its settings.yml must list json under"
            " search.formats."
        )


class TavilySearch(HttpSearch):
    """Tavily, by its own client. Raises ValueError without a key; it would go on keyless."""

    provider = "Tavily"

    def __init__(self, api_key: str, *, base_url: str = TAVILY_URL) -> None:
        if not (key := api_key.strip()):
            raise ValueError("Tavily needs an API key.")
        from tavily import AsyncTavilyClient  # noqa: PLC0415 -- for those who search by it

        super().__init__(base_url)
        self._client = AsyncTavilyClient(api_key=key, api_base_url=base_url, client=self._http)
        # The client adds these from environment variables of its own.
        for header in ("X-Project-ID", "X-Tavily-Orgid"):
            self._http.headers.pop(header, None)

    async def _search(self, query: str, max_results: int) -> list[WebHit]:
        # Its own bound on the time is longer than that of `search`.
        reply = await self._client.search(
            query[:MAX_TAVILY_QUERY_CHARS],
            max_results=min(max_results, MAX_RESULTS),
            search_depth="advanced",
            include_raw_content="text",
        )
        # It adds an empty list of results to whatever object came; the echo it does not.
        if "query" not in reply:
            raise ValueError
        return self._hits(reply, max_results)


class RecordedResult(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    title: str = ""
    text: str = ""
    score: float | None = None


RECORDING = TypeAdapter(dict[str, list[RecordedResult]])


class FixtureSearch:
    """Recorded results: the same every time, without a network.

    The file is a JSON object from queries to lists of RecordedResult: {"light": [{"url": "…"}]}.
    Case and white space of a query do not matter; "*" answers every query that is not recorded.
    Raises SearchFailed where it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            recording = RECORDING.validate_json(path.read_bytes())
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
        self._recorded = {_key(query): results for query, results in recording.items()}

    async def search(self, query: str, max_results: int) -> list[WebHit]:
        recorded = self._recorded.get(_key(query), self._recorded.get(ANY_QUERY, []))
        return [
            WebHit(hit.url, hit.title, hit.text, score_of(hit.score, rank))
            for rank, hit in enumerate(recorded[:max_results])
        ]

    async def aclose(self) -> None:
        """There is nothing to release."""


def _key(query: str) -> str:
    return " ".join(query.casefold().split())


def timeouts(timeout_s: float) -> httpx.Timeout:
    return httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))


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
    return printable(value).strip()


def score_of(value: object, rank: int) -> float:
    """The engine's own score, or one that falls with the rank where it gives none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(score := float(value)):
                return score
        except OverflowError:
            pass
    return 1.0 / (1 + rank)
