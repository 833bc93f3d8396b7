"""Replies of the language model to small tasks, or of the fallback model where it fails."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from graphs.errors import GeneratorFailed
from graphs.generation.prompts import text_of, usage_of
from graphs.ports import Services
from graphs.types import Degraded, Usage

MAX_REPLY_CHARS = 2000
"""No query, passage or summary is taken that is longer."""
TOO_LONG = "too_long"
"""The finish reason of a reply that was stopped there."""
LOOKED_AT_EVERY = 50
"""Pieces, for reading is not free."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The language model's reply; empty where it was not called, or failed."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    degraded: tuple[Degraded, ...] = ()


async def reply_to(messages: Sequence[BaseMessage], services: Services) -> ModelReply:
    """Nothing where there is no language model; every call counts, also one that fails."""
    if services.chat is None:
        return ModelReply()
    try:
        text, usage = await short_reply(services.chat, messages)
    except GeneratorFailed as error:
        again = ModelReply()
        if (other := services.fallen_back) is not None:
            again = await reply_to(messages, other)
        degraded = error.answered_by(services.fallback_name) if again.text else error.degraded
        return replace(again, usage=error.usage + again.usage, degraded=(degraded, *again.degraded))
    return ModelReply(text, usage)


async def short_reply(
    chat: BaseChatModel, messages: Sequence[BaseMessage], most_chars: int = MAX_REPLY_CHARS
) -> tuple[str, Usage]:
    """What the model says to a small task, and the cost. Raises GeneratorFailed."""
    reply = await reply_within(chat, messages, most_chars)
    return text_of(reply), usage_of(reply)


async def reply_within(
    chat: BaseChatModel, messages: Sequence[BaseMessage], most_chars: int, **options: Any
) -> AIMessageChunk:
    """The reply, stopped once the model has said more than `most_chars`; its thoughts are free.

    Small models do not come to an end: asked for a list in JSON, they count on to their limit.
    Raises GeneratorFailed.
    """
    reply, pieces = AIMessageChunk(content=""), 0
    stream = cast("AsyncGenerator[AIMessageChunk]", chat.astream(list(messages), **options))
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            reply += chunk
            pieces += bool(chunk.text)
            if pieces % LOOKED_AT_EVERY == 0 and len(text_of(reply)) > most_chars:
                return reply + given_up(TOO_LONG, 0, pieces)
    return reply


def given_up(reason: str, input_tokens: int, output_tokens: int) -> AIMessageChunk:
    """The last piece of a reply that is read no further; what it cost is what is known by then."""
    total = input_tokens + output_tokens
    return AIMessageChunk(
        content="",
        response_metadata={"finish_reason": reason},
        usage_metadata=UsageMetadata(
            input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=total
        ),
    )
