"""Ask the knowledge base."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from graphs.errors import RetrieverFailed
from graphs.ports import Services
from graphs.state import Answer, Context, State, begun, tunables
from graphs.types import Degraded, Passage


async def retrieve(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """The best passages for the question; none, and so said, where the index fails."""
    passages: Sequence[Passage] = []
    degraded: list[Degraded] = []
    try:
        passages = await services.retriever.retrieve(
            state["question"], tunables(runtime).retrieve_k
        )
    except RetrieverFailed as error:
        degraded = [Degraded(error.component, str(error))]
    return {**begun(state, degraded), "documents": list(passages)}
