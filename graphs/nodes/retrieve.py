"""Ask the knowledge base."""

from collections.abc import Sequence

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.errors import RetrieverFailed
from graphs.generation.fusion import by_reciprocal_ranks
from graphs.ports import Services
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.types import Degraded, Passage


async def retrieve(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The best passages for the question, or for all queries made of it, side by side.

    What is missing where the index fails is said. A later look, where an earlier one found nothing
    relevant, brings the next ones as well; a run that reranks brings more to choose from.
    """
    context, looks = tunables(runtime), state.get("looks", 0) + 1
    most = context.retrieve_k * looks
    if context.rerank != "none":
        most = max(most, context.rerank_candidates)
    degraded: list[Degraded] = []

    async def found_for(query: str) -> Sequence[Passage]:
        try:
            return await services.retriever.retrieve(query, most, context.searching())
        except RetrieverFailed as error:
            degraded.append(Degraded(error.component, str(error)))
            return error.passages

    queries = state.get("queries") or [asked(state)]
    rankings = await gather_with_concurrency(None, *map(found_for, queries))
    return {
        "documents": by_reciprocal_ranks(rankings)[:most],
        "looks": looks,
        "degraded": list(dict.fromkeys(degraded)),
    }
