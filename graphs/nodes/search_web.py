"""Search the web with the rewritten query, or collect the speculative search (CRAG 4.5)."""

from langgraph.runtime import Runtime

from graphs.errors import SearchFailed
from graphs.grading.actions import searches_again
from graphs.nodes.rewrite_query import rewritten
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded, Usage

MAX_QUERY_CHARS = 300
"""A search engine reads no more of a query than this."""


async def search_web(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """Result pages in paragraphs; none, and so said, where the search fails.

    Where a search began beside grading its pages are these. If it found none, keywords are searched
    after it, as far as the run may.
    """
    context, ticket = options_of(runtime), state.get("speculative_search")
    if not ticket:
        return await _searched(state, context, services)
    update, failed = await _collected(ticket, services)
    spent = state.get("usage", Usage()) + update["usage"]
    if update["web_pages"] or not searches_again(spent, context):
        return {**update, "degraded": [*update["degraded"], *failed]}
    query = State(rewritten_query=None)
    if context.ablation.rewriting:
        query = await rewritten(state, context, services)
    again = await _searched(State(**{**state, **query}), context, services)
    return {
        **again,
        "rewritten_query": query["rewritten_query"],
        "degraded": [*update["degraded"], *query.get("degraded", []), *again["degraded"]],
        "usage": update["usage"] + query.get("usage", Usage()) + again["usage"],
    }


async def _searched(state: State, context: Context, services: Services) -> State:
    if services.web_search is None:
        return {"web_pages": [], "degraded": [], "usage": Usage()}
    usage = Usage(web_searches=1)
    try:
        pages, degraded = await services.web_search.search(web_query(state), context.web_pages)
    except SearchFailed as error:
        return {"web_pages": [], "degraded": [error.degraded], "usage": usage}
    return {"web_pages": list(pages), "degraded": list(degraded), "usage": usage}


async def _collected(ticket: str, services: Services) -> tuple[State, list[Degraded]]:
    """What the search found that began beside grading, and how it failed, if it did.

    A run that goes on in another process has lost its search: none was made, none is counted.
    """
    update: State = {"web_pages": [], "degraded": [], "usage": Usage()}
    ahead = services.search_ahead
    try:
        found = await ahead.take(ticket) if ahead is not None else None
    except SearchFailed as error:
        return {**update, "usage": Usage(web_searches=1)}, [error.degraded]
    if found is not None:
        pages, degraded = found
        update = {
            "web_pages": list(pages), "degraded": list(degraded), "usage": Usage(web_searches=1)
        }  # fmt: skip
    return update, []


def web_query(state: State) -> str:
    """The keywords with their commas, which each engine reads in its way; else the question."""
    query = state.get("rewritten_query") or effective_question(state)
    return " ".join(query.split())[:MAX_QUERY_CHARS]
