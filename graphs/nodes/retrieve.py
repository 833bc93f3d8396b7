"""Ask the knowledge base."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from graphs.errors import RetrieverFailed
from graphs.ports import Services
from graphs.state import Context, Reflecting, State, begun, tunables
from graphs.types import Degraded, Passage


async def retrieve(
    state: State, runtime: Runtime[Context], *, services: Services, first: bool = True
) -> Reflecting:
    """The best passages for the question; none, and so said, where the index fails.

    A later look, where an earlier one found nothing relevant, brings the next ones as well. Where
    the run begins here (`first`), what an earlier run left behind is void.
    """
    looks = 1 if first else state.get("looks", 0) + 1
    passages: Sequence[Passage] = []
    degraded: list[Degraded] = []
    try:
        passages = await services.retriever.retrieve(
            state["question"], tunables(runtime).retrieve_k * looks
        )
    except RetrieverFailed as error:
        degraded = [Degraded(error.component, str(error))]
    fresh = begun(state, degraded) if first else Reflecting(degraded=degraded)
    return {**fresh, "documents": list(passages), "looks": looks}
