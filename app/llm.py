"""Any OpenAI-compatible chat endpoint as a LangChain chat model that fails in plain words."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, NoReturn, cast
from urllib.parse import urlsplit

import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

from graphs.errors import GeneratorFailed

# What the client raises on replies that are no chat completions.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError)
# Servers without keys still want the header to be there.
NO_KEY = "none"


class EndpointChat(ChatOpenAI):
    """Raises GeneratorFailed for whatever the endpoint does wrong; `ainvoke` and `astream` only.

    At most `max_concurrent` calls of all runs are under way; a call's time, waiting for its turn
    included, is bounded.
    """

    call_timeout_s: float
    max_concurrent: int

    _slots: asyncio.Semaphore = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._slots = asyncio.Semaphore(self.max_concurrent)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        deadline = asyncio.get_running_loop().time() + self.call_timeout_s
        has_text = has_ended = False
        answer = cast("AsyncGenerator[ChatGenerationChunk]", super()._astream(*args, **kwargs))
        async with self._turn(deadline), aclosing(answer) as chunks:
            while (chunk := await self._next(chunks, deadline)) is not None:
                has_text = has_text or bool(chunk.text.strip())
                has_ended = has_ended or _is_last(chunk)
                yield chunk
        if not has_ended:
            raise self._failed("broke its answer off; try again")
        if not has_text:
            raise self._failed("gave an empty answer")

    async def _next(
        self, chunks: AsyncIterator[ChatGenerationChunk], deadline: float
    ) -> ChatGenerationChunk | None:
        try:
            # Around the one step, not the loop: the reader's own time between must not be hit.
            async with asyncio.timeout_at(deadline):
                return await anext(chunks, None)
        except (openai.OpenAIError, TimeoutError, *MALFORMED) as error:
            self._raise_for(error)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        deadline = asyncio.get_running_loop().time() + self.call_timeout_s
        async with self._turn(deadline):
            try:
                async with asyncio.timeout_at(deadline):
                    result = await super()._agenerate(messages, stop, run_manager, **kwargs)
            except (openai.OpenAIError, TimeoutError, *MALFORMED) as error:
                self._raise_for(error)
        if not result.generations or not result.generations[0].text.strip():
            raise self._failed("gave an empty answer")
        return result

    @asynccontextmanager
    async def _turn(self, deadline: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise self._failed(
                f"is busy: {self.max_concurrent} calls were under way for"
                f" {self.call_timeout_s:g} s; try again or allow more at a time"
            ) from None
        try:
            yield
        finally:
            self._slots.release()

    def _raise_for(self, error: Exception) -> NoReturn:
        # Nothing of the cause is passed on: some endpoints repeat the key in what they answer.
        raise self._failed(_what_went_wrong(error, self)) from None

    def _failed(self, what: str) -> GeneratorFailed:
        return GeneratorFailed(f"The chat endpoint at {_host(self)} {what}.")

    async def aclose(self) -> None:
        """Release the connections."""
        await self.root_async_client.close()


def chat_model(
    base_url: str,
    api_key: str,
    model: str,
    *,
    temperature: float = 0.0,
    max_output_tokens: int | None = None,
    timeout_s: float = 60.0,
    connect_timeout_s: float = 5.0,
    max_retries: int = 0,
    max_concurrent: int = 8,
) -> EndpointChat:
    """A streaming chat model; `timeout_s` bounds a whole call, waiting for its turn included.

    `max_retries` are the client's, before the first token only; leave it 0 where the graph
    retries. An empty `api_key` is for servers without keys.
    """
    timeout = openai.Timeout(timeout_s, connect=min(connect_timeout_s, timeout_s))
    return EndpointChat(
        base_url=base_url,
        api_key=SecretStr(api_key.strip() or NO_KEY),
        model=model,
        temperature=temperature,
        max_completion_tokens=max_output_tokens,
        timeout=timeout,
        max_retries=max_retries,
        streaming=True,
        stream_usage=True,
        use_responses_api=False,
        # The client's own bound reads the environment; the deadline of the call stands for it.
        stream_chunk_timeout=None,
        # A shared one would outlive the event loop it was made in.
        http_async_client=openai.DefaultAsyncHttpxClient(timeout=timeout),
        call_timeout_s=timeout_s,
        max_concurrent=max_concurrent,
    )


def _what_went_wrong(error: Exception, chat: EndpointChat) -> str:
    match error:
        case openai.APITimeoutError() | TimeoutError():
            return f"did not finish within {chat.call_timeout_s:g} s; try again or allow more time"
        case openai.APIConnectionError():
            return "could not be reached or broke off; check that it runs and its address"
        case openai.APIStatusError():
            return _refusal(error.status_code, chat.model_name)
        case openai.APIError():
            return "reported an error while answering; try again"
        case _:
            return "sent a reply that is no chat completion; check its address"


def _refusal(status: int, model: str) -> str:
    if status in {401, 403}:
        return f"refused the key (HTTP {status}); check the API key in the settings"
    if status == 404:
        return f"does not know the model {model!r} or the path (HTTP 404); check both"
    if status == 429:
        return "is limiting requests or the quota is used up (HTTP 429); wait and try again"
    if status in {400, 413, 422}:
        return f"did not accept the request (HTTP {status}); it may be too long for {model!r}"
    return f"is failing on its side (HTTP {status}); try again later"


def _is_last(chunk: ChatGenerationChunk) -> bool:
    """The end is marked by a finish reason; the usage comes after the text, too."""
    told = chunk.generation_info or {}
    return bool(told.get("finish_reason") or getattr(chunk.message, "usage_metadata", None))


def _host(chat: EndpointChat) -> str:
    """Host and port alone: an address may carry a password."""
    parts = urlsplit(chat.openai_api_base or "")
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "its address"
