"""Search: corrected knowledge without an answer, by `crag` without a generator of its own."""

from dataclasses import replace

from app.runs.run import Run
from app.schemas.ask import AskResponse, ErrorEvent, KnowledgePassage, SearchResponse
from graphs.ports import Services
from graphs.types import Origin
from graphs.workflows.crag import build_crag
from graphs.workflows.registry import Graph

SEARCH = "search"
"""The workflow that such a run is kept with; `POST /ask` does not offer it."""


def build_search(services: Services) -> Graph:
    """Asks no language model, but for a grader that is one: whoever searches has a model."""
    without = replace(services, chat=None, chat_name="extractive", reflective=None, fallback=None)
    return build_crag(without)


async def corrected_knowledge(run: Run) -> SearchResponse | ErrorEvent:
    """The strips that the run keeps, best first; the problem where it failed."""
    last = await run.outcome()
    return last if isinstance(last, ErrorEvent) else _search_response(last.response)


def _search_response(response: AskResponse) -> SearchResponse:
    places: dict[str, tuple[str, str, Origin]] = {
        document.id: (document.title, document.source, document.origin)
        for document in response.documents
    }
    places |= {page.url: (page.title, page.url, "web") for page in response.web_results}
    strips = sorted((strip for strip in response.strips if strip.kept), key=lambda it: -it.score)
    passages = []
    for strip in strips:
        title, source, origin = places[strip.document_id]
        passages.append(
            KnowledgePassage(
                strip_id=strip.id,
                document_id=strip.document_id,
                origin=origin,
                title=title,
                source=source,
                text=strip.text,
                score=strip.score,
            )
        )
    return SearchResponse(
        run_id=response.run_id,
        action=response.action,
        thresholds=response.thresholds,
        rewritten_query=response.rewritten_query,
        passages=passages,
        degraded=response.degraded,
    )
