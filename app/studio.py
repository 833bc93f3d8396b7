"""The graphs for LangGraph Studio's server (`langgraph dev`), and our service mounted beside it.

Its server enters a factory once per run: the services are opened once, by whoever comes first,
and shared.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from langgraph.graph.state import CompiledStateGraph

from app.main import create_app
from app.services import load_settings, open_services
from app.settings import Settings
from graphs.messages import Chat, ChatState, build_messages
from graphs.ports import Services
from graphs.state import Context
from graphs.workflows import DEFAULT_WORKFLOW, WORKFLOWS, Graph

_settings = load_settings()
_opening = asyncio.Lock()
_open_for_good = AsyncExitStack()
_services: list[Services] = []


@asynccontextmanager
async def shared_services(_: Settings = _settings) -> AsyncIterator[Services]:
    """The services of this process; they stay open until the process ends."""
    async with _opening:
        if not _services:
            _services.append(await _open_for_good.enter_async_context(open_services(_settings)))
    yield _services[0]


@asynccontextmanager
async def rag() -> AsyncIterator[Graph]:
    async with shared_services() as services:
        yield WORKFLOWS["rag"].build(services)


@asynccontextmanager
async def crag() -> AsyncIterator[Graph]:
    async with shared_services() as services:
        yield WORKFLOWS["crag"].build(services)


@asynccontextmanager
async def messages() -> AsyncIterator[CompiledStateGraph[ChatState, Context, Chat, Chat]]:
    async with shared_services() as services:
        yield build_messages(WORKFLOWS[DEFAULT_WORKFLOW].build(services))


app = create_app(_settings, shared_services)
