"""Chat model of any provider that LangChain has a package for, failing in plain words."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, cast

import httpx
import openai
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field, ValidationError

from app.errors import StartFailed, wrong_fields
from app.llm.chat import MAX_OUTPUT_TOKENS, prompt_messages
from app.llm.endpoint import Endpoint
from app.observability.redaction import redact
from graphs.errors import RequestRefused
from graphs.text.repetition import LoopWatch

Chunks = AsyncGenerator[AIMessageChunk]
PLAIN_ONLY = "takes no response format and tells no log-probabilities"


class ProviderChat(BaseChatModel):
    """Raises GeneratorFailed for whatever the provider does wrong; `ainvoke` and `astream` only.

    `endpoint` bounds the calls of all runs together, and the time of each. Forms of OpenAI's, such
    as `response_format`, are refused: whoever asks tries without.
    """

    model: BaseChatModel = Field(exclude=True)
    model_name: str
    endpoint: Endpoint = Field(exclude=True)

    @property
    def _llm_type(self) -> str:
        return "provider"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("ask it by ainvoke or astream")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._check(kwargs)

        async def request() -> AIMessage:
            with _as_openai():
                return await self.model.ainvoke(messages, stop=stop)

        async with self.endpoint.turn(prompt_messages(messages)) as turn:
            message = await turn.begin(request)
            if usage := message.usage_metadata:
                turn.used(usage["input_tokens"], usage["output_tokens"])
            if not message.text.strip():
                raise self.endpoint.failed("gave an empty answer")
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        self._check(kwargs)
        has_text = has_ended = False
        usage = cast("UsageMetadata | None", None)
        watch = LoopWatch()

        async def start() -> tuple[Chunks, AIMessageChunk | None]:
            chunks = cast("Chunks", self.model.astream(messages, stop=stop))
            with _as_openai():
                return chunks, await anext(chunks, None)

        async with self.endpoint.turn(prompt_messages(messages)) as turn:
            answer, chunk = await turn.begin(start)
            async with aclosing(answer) as chunks:
                while chunk is not None:
                    has_text = has_text or bool(chunk.text.strip())
                    turn.received(chunk.text)
                    if chunk.usage_metadata:  # providers tell it piece by piece
                        usage = add_usage(usage, chunk.usage_metadata)
                        turn.used(usage["input_tokens"], usage["output_tokens"])
                    yield ChatGenerationChunk(message=chunk)
                    has_ended = has_ended or "finish_reason" in chunk.response_metadata
                    if not has_ended and watch.is_looping(chunk.text):
                        yield turn.end_of_loop()
                        return
                    async with turn.step():
                        with _as_openai():
                            chunk = await anext(chunks, None)
            if not has_text:
                raise self.endpoint.failed("gave an empty answer")

    async def aclose(self) -> None:
        """Nothing: packages share their HTTP clients among all models, and keep them."""

    def _check(self, options: dict[str, Any]) -> None:
        if options.keys() - {"stream"}:
            raise self.endpoint.failed(PLAIN_ONLY, RequestRefused)


@contextmanager
def _as_openai() -> Iterator[None]:
    """The errors of any provider's package as those that `Endpoint` puts into words."""
    try:
        yield
    except (openai.APIError, TimeoutError):
        raise
    # Each package has a tree of its own.
    except Exception as error:  # noqa: BLE001
        raise _translated(error) from None


def _translated(error: Exception) -> openai.APIError:
    request: Any = httpx.Request("POST", "http://provider")  # OpenAI's client has one of its own
    codes = (getattr(error, name, None) for name in ("status_code", "code", "http_status"))
    status = next((code for code in codes if isinstance(code, int) and code >= 400), None)
    if status is not None:
        sent = getattr(getattr(error, "response", None), "headers", None)
        headers = {k: v for k, v in dict(sent or {}).items() if k.lower() == "retry-after"}
        response: Any = httpx.Response(status, headers=headers, request=request)
        return openai.APIStatusError("", response=response, body=None)
    if "timeout" in type(error).__name__.lower():
        return openai.APITimeoutError(request)
    if isinstance(error, OSError | httpx.TransportError) or "Connect" in type(error).__name__:
        return openai.APIConnectionError(request=request)
    return openai.APIError("", request, body=None)


def provider_chat(
    name: str,
    *,
    api_key: str = "",
    base_url: str = "",
    temperature: float = 0.0,
    max_tokens: int = MAX_OUTPUT_TOKENS,
    timeout_s: float = 60.0,
    max_concurrent: int = 8,
    kind: str = "chat",
    has_fallback: bool = False,
) -> ProviderChat:
    """A chat model by `provider:model`; raises StartFailed where it cannot be made.

    Key and address are left to the provider's package where they are empty.
    """
    given: dict[str, Any] = {"temperature": temperature}
    others = {"api_key": api_key, "base_url": base_url, "max_tokens": max_tokens}
    given |= {k: v for k, v in others.items() if v}
    try:
        model = init_chat_model(name, **given)
    except ImportError as error:
        raise StartFailed(f"the {kind} model {name}: {error}") from None
    except ValidationError as error:
        raise StartFailed(f"the {kind} model {name}: {wrong_fields(error)}") from None
    # What packages of others raise of a provider they do not know, or a key they miss.
    except Exception as error:  # noqa: BLE001
        why = redact(str(error).strip().split("\n\n")[0])
        raise StartFailed(f"the {kind} model {name}: {why}") from None
    provider, _, bare = name.partition(":")
    return ProviderChat(
        model=model,
        model_name=bare or name,
        endpoint=Endpoint(
            base_url or f"//{provider}",
            bare or name,
            timeout_s=timeout_s,
            max_concurrent=max_concurrent,
            kind=kind,
            has_fallback=has_fallback,
        ),
    )
