"""What a run may spend: once it is spent no model is asked again, and what is there is used."""

from collections.abc import Sequence
from dataclasses import replace

from graphs.context import Context
from graphs.drafting import EXTRACTIVE
from graphs.ports import Services
from graphs.state import State
from graphs.types import Draft, Usage


def is_spent(usage: Usage, context: Context) -> bool:
    """Whether the calls or the tokens of the run are used up."""
    tokens = usage.input_tokens + usage.output_tokens
    return usage.llm_calls >= context.max_llm_calls or tokens >= context.max_tokens


def within_budget(state: State, context: Context, services: Services) -> Services:
    """The services; without the models that write where the budget is spent."""
    if is_spent(state.get("usage", Usage()), context):
        return replace(services, chat=None, reflective=None)
    return services


def calls_left(state: State, context: Context) -> int:
    """At least 1: something has to be said."""
    return max(1, context.max_llm_calls - state.get("usage", Usage()).llm_calls)


def writes_by_model(services: Services) -> bool:
    return services.chat is not None or services.reflective is not None


def quoted_instead(
    drafts: Sequence[Draft], usage: Usage, context: Context, services: Services
) -> bool:
    """Whether sentences were quoted because no model might be asked for a draft any more."""
    is_quoted = any(draft.generator == EXTRACTIVE for draft in drafts)
    return is_quoted and writes_by_model(services) and is_spent(usage, context)
