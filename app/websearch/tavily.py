"""Tavily, by its own client."""

from collections.abc import Mapping
from typing import Any

import httpx
from tavily import AsyncTavilyClient, errors

from app.websearch.engines import (
    SEARCH_TIMEOUT_S,
    SearchResult,
    in_time,
    malformed,
    refused,
    results_of,
    timeouts,
    unreachable,
)
from graphs.errors import SearchFailed

PROVIDER = "Tavily"
MAX_QUERY_CHARS = 400
MAX_RESULTS = 20


class TavilySearch:
    """Searches with a key; raises ValueError without one, for the client would go on keyless."""

    def __init__(self, api_key: str, *, base_url: str = "https://api.tavily.com") -> None:
        if not api_key.strip():
            raise ValueError("Tavily needs an API key.")
        self._base_url = base_url
        self._http = httpx.AsyncClient(
            base_url=base_url,
            timeout=timeouts(SEARCH_TIMEOUT_S),
            headers={"Authorization": f"Bearer {api_key.strip()}"},
        )
        self._client = AsyncTavilyClient(
            api_key=api_key.strip(), api_base_url=base_url, client=self._http
        )
        # The client adds these from environment variables of its own.
        for header in ("X-Project-ID", "X-Tavily-Orgid"):
            self._http.headers.pop(header, None)

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        reply = await self._ask(query[:MAX_QUERY_CHARS], min(max_results, MAX_RESULTS))
        hits = reply.get("results") if isinstance(reply, Mapping) else None
        # The client adds an empty list of results to whatever object came; the echo it does not.
        if not isinstance(hits, list) or "query" not in reply:
            raise malformed(PROVIDER)
        return results_of(hits, max_results)

    async def _ask(self, query: str, max_results: int) -> Any:
        try:
            async with in_time(PROVIDER, self._base_url):
                return await self._client.search(
                    query, max_results=max_results, timeout=SEARCH_TIMEOUT_S
                )
        except errors.TimeoutError:
            raise unreachable(PROVIDER, self._base_url, TimeoutError()) from None
        except (errors.InvalidAPIKeyError, errors.ForbiddenError):
            raise SearchFailed("Tavily refused the API key; check it and its plan.") from None
        except errors.UsageLimitExceededError:
            raise refused(PROVIDER, 429) from None
        except errors.BadRequestError:
            raise refused(PROVIDER, 400) from None
        except httpx.HTTPStatusError as error:
            raise refused(PROVIDER, error.response.status_code) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise unreachable(PROVIDER, self._base_url, error) from None
        except (ValueError, TypeError, AttributeError, RecursionError):
            # The client stumbles so over replies that are no JSON object.
            raise malformed(PROVIDER) from None

    async def aclose(self) -> None:
        await self._http.aclose()
