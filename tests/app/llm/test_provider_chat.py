"""A chat model of any provider: made by its name, asked through its own package, its errors."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr, ValidationError

from app.composition.services import open_services
from app.errors import StartFailed
from app.llm.endpoint import Endpoint
from app.llm.provider_chat import ProviderChat, provider_chat
from app.settings import Settings
from graphs.critics.llm import LlmCritic
from graphs.errors import GeneratorFailed, RequestRefused
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer

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


def test_settings_that_do_not_fit_are_refused(clean_environment: None) -> None:
    for chosen, words in (
        ({"generator": "langchain"}, "generator langchain needs SELFCRAG_CHAT_MODEL"),
        ({"chat_model": "no-provider"}, "chat_model"),
        (
            {"chat_model": "a:b", "generator": "openai", "openai_api_key": "k"},
            "needs SELFCRAG_GENERATOR=langchain",
        ),
    ):
        with pytest.raises(ValidationError, match=words):
            Settings(_env_file=None, **chosen)  # type: ignore[arg-type]
    assert Settings(_env_file=None, critic="llm", chat_model="a:b").critic == "llm"


@pytest.mark.slow
async def test_the_service_writes_and_judges_with_it(
    server: OpenAIServer, tmp_path: Path, clean_environment: None
) -> None:
    settings = Settings(
        _env_file=None,
        data_dir=tmp_path,
        search="off",
        generator="langchain",
        critic="llm",
        chat_model=f"openai:{MODEL}",
        chat_api_key=SecretStr(OPENAI_KEY),
        chat_base_url=server.base_url,
    )
    async with open_services(settings) as services:
        chat = services.chat
        assert isinstance(chat, ProviderChat)
        assert (await chat.ainvoke(ASKED)).text
        await cast("ChatOpenAI", chat.model).root_async_client.close()
    assert services.chat_name == MODEL
    assert isinstance(services.critic, LlmCritic)
    assert "chat" in services.circuits
