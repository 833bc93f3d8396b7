"""The graphs for LangGraph Studio's server (`langgraph dev`), and our service mounted beside it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph.graph.state import CompiledStateGraph

from app.main import create_app
from app.services import load_settings
from app.shared import shared_services
from graphs.messages import Chat, ChatState, build_messages
from graphs.reflect import build_reflecting
from graphs.state import Context
from graphs.workflows import DEFAULT_WORKFLOW, WORKFLOWS, Graph

_settings = load_settings()


@asynccontextmanager
async def rag() -> AsyncIterator[Graph]:
    async with shared_services(_settings) as services:
        yield WORKFLOWS["rag"].build(services)


@asynccontextmanager
async def crag() -> AsyncIterator[Graph]:
    async with shared_services(_settings) as services:
        yield WORKFLOWS["crag"].build(services)


@asynccontextmanager
async def self_rag() -> AsyncIterator[Graph]:
    async with shared_services(_settings) as services:
        yield WORKFLOWS["self_rag"].build(services)


@asynccontextmanager
async def self_crag() -> AsyncIterator[Graph]:
    async with shared_services(_settings) as services:
        yield WORKFLOWS["self_crag"].build(services)


@asynccontextmanager
async def reflect() -> AsyncIterator[Graph]:
    async with shared_services(_settings) as services:
        yield build_reflecting(services)


@asynccontextmanager
async def messages() -> AsyncIterator[CompiledStateGraph[ChatState, Context, Chat, Chat]]:
    async with shared_services(_settings) as services:
        yield build_messages(WORKFLOWS[DEFAULT_WORKFLOW].build(services))


app = create_app(_settings, shared_services)
