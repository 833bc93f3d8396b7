"""Chat model: any OpenAI-compatible endpoint for LangChain, failing in plain words."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, cast
from urllib.parse import urlsplit

import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr

from app.llm.endpoint import CONNECT_TIMEOUT_S, NO_KEY, Endpoint, Turn
from app.observability.model_calls import PromptMessage
from app.resilience.circuit_breaker import CircuitBreaker
from graphs.text.repetition import LoopWatch

Chunks = AsyncGenerator[ChatGenerationChunk]
_ROLES = {"human": "user", "ai": "assistant"}
MAX_OUTPUT_TOKENS = 4096
OPENAIS = (".openai.com", ".openai.azure.com")
"""Hosts whose reasoning models refuse `max_tokens`; others ignore `max_completion_tokens`."""


class EndpointChat(ChatOpenAI):
    """Raises GeneratorFailed for whatever the endpoint does wrong; `ainvoke` and `astream` only.

    `endpoint` bounds the calls of all runs together, and the time of each.
    """

    endpoint: Endpoint = Field(exclude=True)

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        has_text = has_ended = False
        ask, watch = super()._astream, LoopWatch()

        async def start() -> tuple[Chunks, ChatGenerationChunk | None]:
            chunks = cast("Chunks", ask(messages, *args, **kwargs))
            return chunks, await anext(chunks, None)

        async with self.endpoint.turn(prompt_messages(messages)) as turn:
            answer, chunk = await turn.begin(start)
            async with aclosing(answer) as chunks:
                while chunk is not None:
                    has_text = has_text or bool(chunk.text.strip())
                    has_ended = has_ended or _is_last(chunk)
                    turn.received(chunk.text)
                    _count(chunk.message, turn)
                    yield chunk
                    # Closing the stream stops the model.
                    if not has_ended and watch.is_looping(chunk.text):
                        yield turn.end_of_loop()
                        return
                    # Around the one step, not the loop: the reader's own time between must not be
                    # hit.
                    async with turn.step():
                        chunk = await anext(chunks, None)
            if not has_ended:
                raise turn.broke_off()
            if not has_text:
                raise self.endpoint.failed("gave an empty answer")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        ask = super()._agenerate
        async with self.endpoint.turn(prompt_messages(messages)) as turn:
            result = await turn.begin(lambda: ask(messages, stop, run_manager, **kwargs))
            for generation in result.generations:
                _count(generation.message, turn)
            if not result.generations or not result.generations[0].text.strip():
                raise self.endpoint.failed("gave an empty answer")
        return result

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """A response format past the client, which would refuse to read a reply that was cut."""
        payload: dict[str, Any] = super()._get_request_payload(*args, **kwargs)
        if form := payload.pop("response_format", None):
            payload["extra_body"] = {**(payload.get("extra_body") or {}), "response_format": form}
        return payload

    async def aclose(self) -> None:
        await self.root_async_client.close()


def chat_model(
    base_url: str,
    api_key: str,
    model: str,
    *,
    temperature: float = 0.0,
    max_tokens: int = MAX_OUTPUT_TOKENS,
    timeout_s: float = 60.0,
    max_concurrent: int = 8,
    kind: str = "chat",
    breaker: CircuitBreaker | None = None,
    has_fallback: bool = False,
) -> EndpointChat:
    """A streaming chat model; `timeout_s` bounds a whole call, waiting and retries included.

    An answer is tried again until its first piece alone. An empty `api_key` is for servers without
    keys; `max_tokens` 0 sets no limit.
    """
    is_openais = (urlsplit(base_url).hostname or "").endswith(OPENAIS)
    most: dict[str, Any] = {"max_tokens": max_tokens} if max_tokens else {}
    timeout = openai.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))
    return EndpointChat(
        base_url=base_url,
        api_key=SecretStr(api_key.strip() or NO_KEY),
        model=model,
        temperature=temperature,
        **(most if is_openais else {}),
        extra_body=None if is_openais else most,
        timeout=timeout,
        max_retries=0,  # the endpoint knows the run's deadline
        streaming=True,
        stream_usage=True,
        use_responses_api=False,
        # The client's own bound reads the environment; the deadline of the call stands for it.
        stream_chunk_timeout=None,
        # A shared one would outlive the event loop it was made in.
        http_async_client=openai.DefaultAsyncHttpxClient(timeout=timeout),
        endpoint=Endpoint(
            base_url,
            model,
            timeout_s=timeout_s,
            max_concurrent=max_concurrent,
            kind=kind,
            breaker=breaker,
            has_fallback=has_fallback,
        ),
    )


def prompt_messages(messages: Sequence[BaseMessage]) -> list[PromptMessage]:
    """Their text alone in OpenAI's roles: images and whatever else they carry are left out."""
    return [PromptMessage(_ROLES.get(each.type, each.type), str(each.text)) for each in messages]


def _count(message: BaseMessage, turn: Turn) -> None:
    if usage := getattr(message, "usage_metadata", None):
        turn.used(usage["input_tokens"], usage["output_tokens"])


def _is_last(chunk: ChatGenerationChunk) -> bool:
    """The end is marked by a finish reason; the usage comes after the text, too."""
    info = chunk.generation_info or {}
    return bool(info.get("finish_reason") or getattr(chunk.message, "usage_metadata", None))
