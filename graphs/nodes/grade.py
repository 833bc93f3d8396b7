"""Grade every passage with the evaluator and choose the action (CRAG 4.2, 4.3)."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.grading.actions import choose_action, searches_web, speculates
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import as_judged
from graphs.nodes.search_web import query_of
from graphs.ports import Services
from graphs.state import Context, Graded, State, asked, tunables
from graphs.types import Degraded, Passage, Usage


def graded(passages: Sequence[Passage], scores: Sequence[float | None]) -> list[Passage]:
    """Best first; passages that could not be scored are left out."""
    scored = [
        replace(passage, score=score)
        for passage, score in zip(passages, scores, strict=True)
        if score is not None
    ]
    return sorted(scored, key=lambda passage: -passage.score)


async def grade(state: State, runtime: Runtime[Context], *, services: Services) -> Graded:
    """Graded documents and the action; no action, and so said, where the evaluator fails.

    Where the run speculates, a web search begins beside it and is kept if the action wants it.
    """
    context, ahead = tunables(runtime), services.search_ahead
    if ahead is None or not speculates(context, state.get("documents", [])):
        return {**await judged(state, context, services), "search_ahead": None}
    with ahead.begin(query_of(state), context.web_pages) as ticket:
        changed = await judged(state, context, services)
        if ticket and searches_web(changed["action"], context, True):
            ahead.keep(ticket)
            return {**changed, "search_ahead": ticket}
    if ticket:
        discarded = Usage(web_searches=1, discarded_searches=1)
        changed["usage"] = changed.get("usage", Usage()) + discarded
    return {**changed, "search_ahead": None}


async def judged(state: State, context: Context, services: Services) -> Graded:
    """The documents by their grades, and the action they make."""
    passages = state.get("documents", [])
    texts = [as_judged(passage, context.grade_titles) for passage in passages]
    try:
        graded_by = await relevance_of(
            asked(state), texts, services.evaluator, by_parts=context.grade_parts
        )
    except EvaluatorFailed as error:
        return {
            "action": None,
            "is_graded": False,
            "degraded": [Degraded(error.component, str(error))],
        }
    documents = graded(passages, graded_by.best)
    thresholds = context.thresholds(services.evaluator.thresholds)
    changed: Graded = {
        "documents": documents,
        "is_graded": True,
        "action": choose_action(graded_by.by_question, thresholds, context),
        "usage": graded_by.usage,
    }
    if unscored := len(passages) - len(documents):
        changed["degraded"] = [Degraded("evaluator", f"{unscored} passages could not be graded.")]
    return changed
