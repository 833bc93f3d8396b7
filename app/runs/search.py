"""Search: a run of `crag` that ends where it would begin to write an answer."""

from collections.abc import AsyncIterator

from app.runs.manager import Runs
from app.runs.run import Run
from app.schemas.ask import (
    AskResponse,
    ErrorEvent,
    Event,
    KnowledgePassage,
    SearchResponse,
    StepEvent,
)
from graphs.types import Origin

WORKFLOW = "crag"
_WRITES = "generate"


async def corrected_knowledge(
    run: Run, runs: Runs, events: AsyncIterator[Event]
) -> SearchResponse | ErrorEvent:
    """The strips that the run keeps, best first; the problem where it failed.

    Where nothing could be graded the run goes on to its end: what is answered from is known then.
    """
    is_graded = False
    async for event in events:
        if isinstance(event, StepEvent):
            is_graded = is_graded or event.detail.get("action") is not None
            if is_graded and event.step == _WRITES:
                break
    await runs.cancel(run)
    if run.response is not None:
        return _told(run.response)
    last = await run.outcome()
    assert isinstance(last, ErrorEvent)
    return last


def _told(response: AskResponse) -> SearchResponse:
    places: dict[str, tuple[str, str, Origin]] = {
        document.id: (document.title, document.source, document.origin)
        for document in response.documents
    }
    places |= {page.url: (page.title, page.url, "web") for page in response.web_results}
    kept = sorted((strip for strip in response.strips if strip.kept), key=lambda it: -it.score)
    passages = []
    for strip in kept:
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
