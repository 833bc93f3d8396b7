"""Search the knowledge base by every query, and rerank what was found."""

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed, PortError, RetrieverFailed
from graphs.grading.actions import is_exhausted
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import evaluator_text
from graphs.nodes.prepare import plan_of
from graphs.options import RERANK_CANDIDATES, RerankBy
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded, Passage, Usage

RANK_OFFSET = 60
"""Reciprocal-rank fusion: how little the first ranks stand out (Cormack et al., 2009)."""


async def retrieved(
    query: str, k: int, state: State, context: Context, services: Services
) -> tuple[Sequence[Passage], list[Degraded]]:
    """What the knowledge base finds; where it fails, what it found all the same, and why.

    The caller's own passages stand in its place: whatever the query, in their order.
    """
    if given := state.get("passages"):
        return given[:k], []
    try:
        return await services.retriever.retrieve(query, k, context.searching()), []
    except RetrieverFailed as error:
        return error.passages, [error.degraded]


async def search(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The best passages for the question, or for all queries made of it, side by side.

    What is missing where the index fails is said. A later retrieval, where an earlier one found
    nothing relevant, brings the next ones too; a run that reranks brings more to choose from.
    """
    context, retrievals = options_of(runtime), state.get("retrievals", 0) + 1
    most = context.retrieve_k * retrievals
    if context.rerank != "none":
        most = max(most, RERANK_CANDIDATES)
    degraded: list[Degraded] = []

    async def ranking(query: str) -> Sequence[Passage]:
        passages, failures = await retrieved(query, most, state, context, services)
        degraded.extend(failures)
        return passages

    queries = state.get("queries") or [effective_question(state)]
    rankings = await gather_with_concurrency(None, *map(ranking, queries))
    documents = fused(rankings)[:most]
    return {
        "documents": documents,
        "retrievals": retrievals,
        "index_exhausted": is_exhausted(retrievals, len(documents), context.retrieve_k),
        "degraded": list(dict.fromkeys(degraded)),
    }


def fused(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Every passage once, scored by the sum of 1 / (60 + rank); a lone ranking stays as it is."""
    if len(rankings) == 1:
        return list(rankings[0])
    passages: dict[str, Passage] = {}
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, passage in enumerate(ranking, start=1):
            passages.setdefault(passage.id, passage)
            scores[passage.id] = scores.get(passage.id, 0.0) + 1 / (RANK_OFFSET + rank)
    joined = [replace(passage, retrieval_score=scores[key]) for key, passage in passages.items()]
    return sorted(joined, key=lambda passage: -passage.retrieval_score)


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
        return {"documents": passages[:most], "degraded": [error.degraded], "usage": error.usage}
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
    texts = [evaluator_text(passage, context.ablation.grade_titles) for passage in passages]
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
    return await services.lexical.rerank(questions[0], passages, context.scope), Usage()
