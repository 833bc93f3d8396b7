from collections.abc import AsyncIterator

import pytest_asyncio

from app.llm.chat import EndpointChat, chat_model
from tests.loopback.critic import CriticServer
from tests.loopback.fixtures import Started
from tests.loopback.openai import MODEL, OPENAI_KEY


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chat(started: Started) -> AsyncIterator[EndpointChat]:
    """One client for all tests of a module; what the server says is each test's own."""
    url = started.fresh(CriticServer).base_url
    model = chat_model(url, OPENAI_KEY, MODEL, timeout_s=2)
    yield model
    await model.aclose()
