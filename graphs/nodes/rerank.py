"""Rerank what was retrieved, and pass the best on (arXiv 2407.01219, reranking)."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed, PortError, RetrieverFailed
from graphs.grading.plan import plan_of
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import as_judged
from graphs.options import RerankBy
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded, Passage, Usage


async def rerank(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The best passages in their new order, as many as the run wants; a later look wants more.

    Where reranking fails, the order of the search stands, and it is said.
    """
    context, passages = options_of(runtime), state.get("documents", [])
    most = context.retrieve_k * state.get("retrievals", 1)
    questions = [effective_question(state), *plan_of(state, context, services).subquestions]
    try:
        scores, usage = await _scores(questions, passages, context, services)
    except PortError as error:
        return {"documents": passages[:most], "degraded": [error.degraded]}
    update: State = {"documents": reordered(passages, scores)[:most], "usage": usage}
    if unscored := sum(score is None for score in scores):
        reason = f"{unscored} passages could not be reranked."
        update["degraded"] = [Degraded("evaluator", reason)]
    return update


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
    return [
        replace(passage, retrieval_score=lowest if score is None else score)
        for passage, score in places
    ]


def reranker_of(context: Context, services: Services) -> RerankBy:
    """Who reranks; for what a preset names and the service does not have, the evaluator."""
    missing = {"model": not services.reranks, "lexical": services.lexical is None}
    if missing.get(context.rerank) and not context.wants("rerank", context.rerank):
        return "evaluator"
    return context.rerank


async def _scores(
    questions: Sequence[str], passages: Sequence[Passage], context: Context, services: Services
) -> tuple[Sequence[float | None], Usage]:
    """By whom the run chose. Raises RetrieverFailed or EvaluatorFailed."""
    texts = [as_judged(passage, context.ablation.grade_titles) for passage in passages]
    by = reranker_of(context, services)
    if by == "evaluator":
        graded = await relevance_of(questions, texts, services.evaluator)
        return graded.best, graded.usage
    if by == "model":
        if not services.reranks:
            raise EvaluatorFailed("The evaluator's worker has no reranking model.")
        pairs = [(questions[0], text) for text in texts]
        values = (await services.evaluator.score("rerank", pairs)).values if pairs else ()
        return values, Usage(scored_pairs=len(pairs))
    if services.lexical is None:
        raise RetrieverFailed("The knowledge base keeps no term weights to rerank by.")
    return await services.lexical.rerank(questions[0], passages), Usage()
