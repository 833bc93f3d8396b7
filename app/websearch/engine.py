"""Search engine protocol, and what its adapters share: results, time limit and failures."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from graphs.errors import SearchFailed
from graphs.text.characters import whole

USER_AGENT = "self-crag/0.1 (question answering service; python-httpx)"
SEARCH_TIMEOUT_S = 8.0
CONNECT_TIMEOUT_S = 3.0
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


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
    url = whole(value).strip() if isinstance(value, str) else ""
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
    return _CONTROL.sub(" ", whole(value)).strip()


def score_of(value: object, rank: int) -> float:
    """The engine's own score, or one that falls with the rank where it gives none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(score := float(value)):
                return score
        except OverflowError:
            pass
    return 1.0 / (1 + rank)
