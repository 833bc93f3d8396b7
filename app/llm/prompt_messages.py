"""Messages of a chat prompt as their text, in OpenAI's roles."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from app.observability.model_calls import PromptMessage

_ROLES = {"human": "user", "ai": "assistant"}


def prompt_messages(messages: Sequence[BaseMessage]) -> list[PromptMessage]:
    """Their text alone: images and whatever else a message carries are left out."""
    return [PromptMessage(_ROLES.get(each.type, each.type), str(each.text)) for each in messages]
