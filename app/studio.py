"""The graphs for LangGraph Studio's server (`langgraph dev`), and our service mounted beside it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from app.composition.services import shared_services
from app.main import create_app
from app.settings import Settings, load_settings
from graphs.ports import Services
from graphs.workflows.chat import build_messages
from graphs.workflows.reflect import build_reflection
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS

G = TypeVar("G")
_settings = load_settings(Settings)


def _opening(build: Callable[[Services], G]) -> Callable[[], AbstractAsyncContextManager[G]]:
    """A factory as the server takes it, entered once a run."""

    @asynccontextmanager
    async def graph() -> AsyncIterator[G]:
        async with shared_services(_settings) as services:
            yield build(services)

    return graph


rag = _opening(WORKFLOWS["rag"].build)
crag = _opening(WORKFLOWS["crag"].build)
self_rag = _opening(WORKFLOWS["self_rag"].build)
self_crag = _opening(WORKFLOWS["self_crag"].build)
illustrate = _opening(WORKFLOWS["illustrate"].build)
reflect = _opening(build_reflection)


messages = _opening(lambda services: build_messages(WORKFLOWS[DEFAULT_WORKFLOW].build(services)))

# The server applies an app's middleware to its own routes as well, Studio's among them.
app = create_app(_settings, shared_services, authenticates=False)
