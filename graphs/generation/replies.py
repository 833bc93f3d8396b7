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
from graphs.text.repetition import REPETITION
from graphs.types import Degraded, Usage

MAX_REPLY_CHARS = 8000
"""Far beyond any that is used: where the prompt opened a model's thoughts, they count as well."""
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


async def short_reply(chat: BaseChatModel, messages: Sequence[BaseMessage]) -> tuple[str, Usage]:
    """What the model says to a small task, and the cost. Raises GeneratorFailed.

    A reply that found no end is a failure: nothing of it is used.
    """
    reply = await whole_reply(chat, messages)
    if reply.response_metadata.get("finish_reason") in (TOO_LONG, REPETITION):
        raise GeneratorFailed(
            "The language model's reply to a small task had no end.", usage_of(reply)
        )
    return text_of(reply), usage_of(reply)


async def whole_reply(
    chat: BaseChatModel, messages: Sequence[BaseMessage], **options: Any
) -> AIMessageChunk:
    """The reply, stopped once the model has said more than is used of any; its thoughts are free.

    Small models do not come to an end: asked for a list in JSON, they count on to their limit.
    Raises GeneratorFailed.
    """
    reply, pieces = AIMessageChunk(content=""), 0
    stream = cast("AsyncGenerator[AIMessageChunk]", chat.astream(list(messages), **options))
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            reply += chunk
            if not chunk.text or reply.response_metadata.get("finish_reason"):
                continue
            pieces += 1
            if pieces % LOOKED_AT_EVERY == 0 and len(text_of(reply)) > MAX_REPLY_CHARS:
                uncounted = max(0, pieces - usage_of(reply).output_tokens)
                return reply + given_up(TOO_LONG, uncounted)
    return reply


def given_up(reason: str, output_tokens: int) -> AIMessageChunk:
    """The last piece of a reply that is read no further, with the tokens not counted before."""
    return AIMessageChunk(
        content="",
        response_metadata={"finish_reason": reason},
        usage_metadata=UsageMetadata(
            input_tokens=0, output_tokens=output_tokens, total_tokens=output_tokens
        ),
    )
