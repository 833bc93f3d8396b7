"""Collect what the web search found that began beside grading."""

from langgraph.runtime import Runtime

from graphs.errors import SearchFailed
from graphs.grading.actions import searches_again
from graphs.ports import Services
from graphs.state import Answer, Context, State, tunables
from graphs.types import Degraded, Usage


async def collect(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """Result pages, waited for; none where the search failed, which is said if it was the last.

    A run that goes on in another process has lost its search: none was made, none is counted.
    """
    ahead, ticket = services.search_ahead, state.get("search_ahead")
    searched = Usage(web_searches=1)
    try:
        found = await ahead.take(ticket) if ahead is not None and ticket else None
    except SearchFailed as error:
        changed: Answer = {"web_pages": [], "usage": searched}
        if not searches_again(state.get("usage", Usage()) + searched, tunables(runtime)):
            changed["degraded"] = [Degraded(error.component, str(error))]
        return changed
    if found is None:
        return {"web_pages": []}
    pages, degraded = found
    return {"web_pages": list(pages), "degraded": list(degraded), "usage": searched}
