"""What a run may spend: once it is spent no model is asked again, and what is there is used."""

from dataclasses import replace

from graphs.options import Context
from graphs.ports import Services
from graphs.state import State
from graphs.types import Usage


def is_spent(usage: Usage, context: Context) -> bool:
    """Whether the calls or the tokens of the run are used up."""
    tokens = usage.input_tokens + usage.output_tokens
    return usage.llm_calls >= context.max_llm_calls or tokens >= context.max_tokens


def within_budget(state: State, context: Context, services: Services) -> Services:
    """The services as they are; without the models that write where the budget is spent."""
    if writes_by_model(services) and is_spent(state.get("usage", Usage()), context):
        return replace(services, chat=None, reflective=None)
    return services


def calls_left(state: State, context: Context) -> int:
    """At least 1: something has to be said."""
    return max(1, context.max_llm_calls - state.get("usage", Usage()).llm_calls)


def writes_by_model(services: Services) -> bool:
    return services.chat is not None or services.reflective is not None
