"""Ask the knowledge base."""

from langgraph.runtime import Runtime

from graphs.errors import RetrieverFailed
from graphs.ports import Services
from graphs.state import Answer, Context, State, tunables
from graphs.types import Degraded


async def retrieve(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """The best passages for the question; none, and so said, where the index fails."""
    context = tunables(runtime)
    try:
        passages = await services.retriever.retrieve(state["question"], context.retrieve_k)
    except RetrieverFailed as error:
        return {"documents": [], "degraded": [Degraded(error.component, str(error))]}
    return {"documents": list(passages)}
