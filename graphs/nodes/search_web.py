"""Search the web with the rewritten query (CRAG 4.5)."""

from langgraph.runtime import Runtime

from graphs.errors import SearchFailed
from graphs.ports import Services
from graphs.state import Answer, Context, State, asked, tunables
from graphs.types import Degraded, Usage

# A search engine reads no more of a query than this.
LONGEST_QUERY = 300


def query_of(state: State) -> str:
    """The keywords with their commas, which each engine reads in its way; else the question."""
    query = state.get("rewritten_query") or asked(state)
    return " ".join(query.split())[:LONGEST_QUERY]


async def search_web(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """Result pages in paragraphs; none, and so said, where the search fails."""
    if services.web_search is None:
        return {"web_pages": []}
    try:
        pages, degraded = await services.web_search.search(
            query_of(state), tunables(runtime).web_pages
        )
    except SearchFailed as error:
        return {
            "web_pages": [],
            "degraded": [Degraded(error.component, str(error))],
            "usage": Usage(web_searches=1),
        }
    return {
        "web_pages": list(pages),
        "degraded": list(degraded),
        "usage": Usage(web_searches=1),
    }
