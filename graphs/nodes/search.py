"""Search the knowledge base, by the question or by all queries made of it."""

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.errors import RetrieverFailed
from graphs.grading.actions import is_exhausted
from graphs.options import RERANK_CANDIDATES
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded, Passage

RANK_OFFSET = 60
"""Reciprocal-rank fusion: how little the first ranks stand out (Cormack et al., 2009)."""


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
        try:
            return await services.retriever.retrieve(query, most, context.searching())
        except RetrieverFailed as error:
            degraded.append(error.degraded)
            return error.passages

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
