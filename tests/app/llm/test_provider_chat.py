"""A chat model of any provider: made by its name, asked through its own package, its errors."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.composition.services import open_services
from app.errors import StartFailed
from app.llm.chat import EndpointChat
from app.llm.endpoint import Endpoint
from app.llm.provider_chat import ProviderChat, provider_chat
from app.settings import Settings
from graphs.critics.llm import LlmCritic
from graphs.errors import GeneratorFailed, RequestRefused
from graphs.text.repetition import REPETITION
from tests.app.serving import wait_until
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer, refusal

ASKED: list[BaseMessage] = [HumanMessage("Question: What does a lighthouse do?")]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """With an address of its own: packages keep a client for every address."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture
async def chat(server: OpenAIServer) -> AsyncIterator[ProviderChat]:
    model = provider_chat(
        f"openai:{MODEL}", api_key=OPENAI_KEY, base_url=server.base_url, timeout_s=5
    )
    yield model
    await cast("ChatOpenAI", model.model).root_async_client.close()


async def test_a_model_by_name_streams_and_tells_its_usage(
    chat: ProviderChat, server: OpenAIServer
) -> None:
    chunks = [chunk async for chunk in chat.astream(ASKED)]
    whole = await chat.ainvoke(ASKED, stream=False)

    assert len([chunk for chunk in chunks if chunk.text]) > 1
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert whole.usage_metadata
    assert [request.body["max_completion_tokens"] for request in server.requests] == [4096] * 2
    assert chat.model_name == MODEL
    with pytest.raises(RequestRefused, match="no response format"):
        await chat.ainvoke(ASKED, response_format={"type": "json_object"})


async def test_a_refusal_is_told_as_that_of_any_endpoint(
    chat: ProviderChat, server: OpenAIServer
) -> None:
    server.status = 401
    for ask in (chat.ainvoke(ASKED, stream=False), anext(chat.astream(ASKED))):
        with pytest.raises(GeneratorFailed, match="refused the key") as failure:
            await ask
        assert OPENAI_KEY not in str(failure.value)


class Failing(BaseChatModel):
    """Raises as packages of providers do, each in a way of its own."""

    error: Any

    @property
    def _llm_type(self) -> str:
        return "failing"

    def _generate(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def _agenerate(self, *_: Any, **__: Any) -> Any:
        raise self.error

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise self.error
        yield


class Overloaded(Exception):
    status_code = 529


class Forbidden(Exception):
    code = 403


class ReadTimeoutError(Exception): ...


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Overloaded("key sk-1"), r"failing on its side \(HTTP 529\)"),
        (Forbidden("key sk-1"), "refused the key"),
        (ReadTimeoutError("key sk-1"), "did not finish within"),
        pytest.param(
            ConnectionResetError("key sk-1"), "could not be reached", marks=pytest.mark.slow
        ),
        (KeyError("key sk-1"), "reported an error while answering"),
    ],
)
async def test_errors_of_other_packages_are_told_in_the_same_words(
    error: Exception, words: str
) -> None:
    endpoint = Endpoint("//acme", "m", timeout_s=2, max_concurrent=1, kind="chat")
    chat = ProviderChat(model=Failing(error=error), model_name="m", endpoint=endpoint)
    for ask in (chat.ainvoke(ASKED), anext(chat.astream(ASKED))):
        with pytest.raises(GeneratorFailed, match=words) as failure:
            await ask
        assert "sk-1" not in str(failure.value)
        assert "acme" in str(failure.value)


async def test_an_empty_answer_is_a_failure() -> None:
    endpoint = Endpoint("//acme", "m", timeout_s=2, max_concurrent=1, kind="chat")
    model = GenericFakeChatModel(messages=iter([AIMessage(" ")] * 2))
    chat = ProviderChat(model=model, model_name="m", endpoint=endpoint)
    with pytest.raises(GeneratorFailed, match="empty answer"):
        await chat.ainvoke(ASKED)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("anthropic:claude-sonnet-4-5", "pip install langchain-anthropic"),
        ("nobody:model", "Unable to infer model provider"),
    ],
)
def test_a_model_that_cannot_be_made_is_a_failed_start(name: str, words: str) -> None:
    with pytest.raises(StartFailed, match=words):
        provider_chat(name)


def test_a_fallback_needs_a_model_that_may_fail(clean_environment: None) -> None:
    with pytest.raises(ValidationError, match="needs SELFCRAG_GENERATOR=chat or native"):
        Settings(_env_file=None, fallback_model="acme:m")
    Settings(_env_file=None, generator="chat", chat_model="acme:m", fallback_model="acme:m")


class AzureServer(OpenAIServer):
    """The models at Azure, to LangChain another provider: other paths, the key without Bearer."""

    def routes(self) -> Sequence[BaseRoute]:
        path = f"/openai/deployments/{MODEL}/chat/completions"
        return [Route(path, self.completions, methods=["POST"])]

    def _unauthorized(self, request: Request) -> Response | None:
        is_known = request.headers.get("api-key") == OPENAI_KEY
        return None if is_known else refusal(401, "Access denied.")


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch, clean_environment: None) -> Iterator[str]:
    """A model of a provider that is not `openai`."""
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    with AzureServer() as server:
        yield f"azure_openai:{MODEL}@{server.url}/openai"


async def text_of(chat: object) -> str:
    """Its reply; then its client is closed."""
    assert isinstance(chat, ProviderChat)
    reply = await chat.ainvoke(ASKED)
    await cast("AzureChatOpenAI", chat.model).root_async_client.close()
    return reply.text


@pytest.mark.slow
async def test_the_service_writes_and_judges_with_it(azure: str, tmp_path: Path) -> None:
    settings = Settings(
        _env_file=None,
        data_dir=tmp_path,
        search="off",
        generator="chat",
        critic="llm",
        chat_model=azure,
        chat_api_key=SecretStr(OPENAI_KEY),
    )
    async with open_services(settings) as services:
        assert await text_of(services.chat)
    assert services.chat_name == MODEL
    assert isinstance(services.critic, LlmCritic)
    assert "chat" in services.circuits


@pytest.mark.slow
async def test_the_fallback_may_be_of_another_provider(azure: str, tmp_path: Path) -> None:
    settings = Settings(
        _env_file=None,
        data_dir=tmp_path,
        search="off",
        generator="chat",
        chat_model="openai:m@http://127.0.0.1:9/v1",
        fallback_model=azure,
        fallback_api_key=SecretStr(OPENAI_KEY),
    )
    async with open_services(settings) as services:
        assert isinstance(services.chat, EndpointChat)
        assert await text_of(services.fallback)
    assert services.fallback_name == MODEL
    assert {"chat", "fallback"} <= services.circuits.keys()


async def test_a_model_by_name_in_a_loop_is_stopped(
    chat: ProviderChat, server: OpenAIServer
) -> None:
    server.says, server.token_chars, server.token_delay_s = "It is lit at dusk. " * 500, 9, 1e-3
    chunks = [chunk async for chunk in chat.astream(ASKED)]

    assert len("".join(chunk.text for chunk in chunks)) < 3000
    last = chunks[-1] if chunks[-1].response_metadata else chunks[-2]
    assert last.response_metadata["finish_reason"] == REPETITION
    pieces = sum(bool(chunk.text) for chunk in chunks)
    counted = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
    assert [usage["output_tokens"] for usage in counted] == [pieces]
    await asyncio.to_thread(wait_until, lambda: server.abandoned > 0, 5)
