"""Rerank what was retrieved, and pass the best on (arXiv 2407.01219, reranking)."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed, PortError, RetrieverFailed
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import as_judged
from graphs.options import RerankBy
from graphs.ports import Services
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.types import Degraded, Passage, Usage


def reordered(passages: Sequence[Passage], scores: Sequence[float | None]) -> list[Passage]:
    """Best first, with their new scores; equal ones in their old order.

    Those without a score stand behind, in their old order, with the lowest score that was given.
    """
    lowest = min((score for score in scores if score is not None), default=None)
    if lowest is None:
        return list(passages)
    places = sorted(
        zip(passages, scores, strict=True),
        key=lambda place: (place[1] is None, 0.0 if place[1] is None else -place[1]),
    )
    return [replace(passage, score=lowest if score is None else score) for passage, score in places]


async def rerank(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The best passages in their new order, as many as the run wants; a later look wants more.

    Where reranking fails, the order of the search stands, and it is said.
    """
    context, passages = tunables(runtime), state.get("documents", [])
    most = context.retrieve_k * state.get("looks", 1)
    try:
        scores, usage = await _scores(asked(state), passages, context, services)
    except PortError as error:
        failed = Degraded(error.component, str(error))
        return {"documents": list(passages)[:most], "degraded": [failed]}
    changed: Reflecting = {"documents": reordered(passages, scores)[:most], "usage": usage}
    if unscored := sum(score is None for score in scores):
        told = f"{unscored} passages could not be reranked."
        changed["degraded"] = [Degraded("evaluator", told)]
    return changed


def served(context: Context, services: Services) -> RerankBy:
    """By whom; what a preset names and the service does not have, the evaluator stands in for."""
    missing = {"model": not services.reranks, "lexical": services.lexical is None}
    if missing.get(context.rerank) and not context.wants("rerank", context.rerank):
        return "evaluator"
    return context.rerank


async def _scores(
    question: str, passages: Sequence[Passage], context: Context, services: Services
) -> tuple[Sequence[float | None], Usage]:
    """By whom the run chose. Raises RetrieverFailed or EvaluatorFailed."""
    texts = [as_judged(passage, context.grade_titles) for passage in passages]
    by = served(context, services)
    if by == "evaluator":
        graded = await relevance_of(
            question, texts, services.evaluator, by_parts=context.grade_parts
        )
        return graded.best, graded.usage
    if by == "model":
        if not services.reranks:
            raise EvaluatorFailed("The evaluator's worker has no reranking model.")
        pairs = [(question, text) for text in texts]
        values = (await services.evaluator.score("rerank", pairs)).values if pairs else ()
        return values, Usage(scored_pairs=len(pairs))
    if services.lexical is None:
        raise RetrieverFailed("The knowledge base keeps no term weights to rerank by.")
    return await services.lexical.rerank(question, passages), Usage()
