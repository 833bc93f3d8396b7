"""The graphs for LangGraph Studio's server (`langgraph dev`), and our service mounted beside it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from langgraph.graph.state import CompiledStateGraph

from app.composition.services import shared_services
from app.main import create_app
from app.settings import load_settings
from graphs.ports import Services
from graphs.state import Context
from graphs.workflows.chat import Chat, ChatState, build_messages
from graphs.workflows.reflect import build_reflection
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS, Graph

_settings = load_settings()


def _opening(
    build: Callable[[Services], Graph],
) -> Callable[[], AbstractAsyncContextManager[Graph]]:
    """A factory as the server takes it, entered once a run."""

    @asynccontextmanager
    async def graph() -> AsyncIterator[Graph]:
        async with shared_services(_settings) as services:
            yield build(services)

    return graph


rag = _opening(WORKFLOWS["rag"].build)
crag = _opening(WORKFLOWS["crag"].build)
self_rag = _opening(WORKFLOWS["self_rag"].build)
self_crag = _opening(WORKFLOWS["self_crag"].build)
reflect = _opening(build_reflection)


@asynccontextmanager
async def messages() -> AsyncIterator[CompiledStateGraph[ChatState, Context, Chat, Chat]]:
    async with shared_services(_settings) as services:
        yield build_messages(WORKFLOWS[DEFAULT_WORKFLOW].build(services))


# The server applies an app's middleware to its own routes as well, Studio's among them.
app = create_app(_settings, shared_services, authenticates=False)
