from collections.abc import AsyncIterator

import pytest

from app.llm.chat import EndpointChat, chat_model
from tests.loopback.critic import CriticServer
from tests.loopback.openai import MODEL, OPENAI_KEY


@pytest.fixture
async def chat(critic_server: CriticServer) -> AsyncIterator[EndpointChat]:
    model = chat_model(critic_server.base_url, OPENAI_KEY, MODEL, timeout_s=2)
    yield model
    await model.aclose()
