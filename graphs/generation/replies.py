"""Replies of the language model to small tasks, or of the fallback model where it fails."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage

from graphs.errors import GeneratorFailed
from graphs.generation.prompts import text_of, usage_of
from graphs.ports import Services
from graphs.types import Degraded, Usage


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
        reply = await services.chat.ainvoke(list(messages))
    except GeneratorFailed as error:
        again = ModelReply()
        if (other := services.fallen_back) is not None:
            again = await reply_to(messages, other)
        degraded = error.answered_by(services.fallback_name) if again.text else error.degraded
        return replace(again, usage=error.usage + again.usage, degraded=(degraded, *again.degraded))
    return ModelReply(text_of(reply), usage_of(reply))
