"""Budget of a run: once it is spent no model is asked again, and what is there is used."""

from dataclasses import replace

from graphs.options import Context
from graphs.ports import Services
from graphs.types import Usage


def is_spent(usage: Usage, context: Context) -> bool:
    """Whether the calls or the tokens of the run are used up."""
    tokens = usage.input_tokens + usage.output_tokens
    return usage.llm_calls >= context.max_llm_calls or tokens >= context.max_tokens


def within_budget(usage: Usage, context: Context, services: Services) -> Services:
    """The services as they are; without the models that write where the budget is spent."""
    if services.writes_by_model and is_spent(usage, context):
        return replace(services, chat=None, reflective=None)
    return services


def calls_left(usage: Usage, context: Context) -> int:
    """At least 1: something has to be said."""
    return max(1, context.max_llm_calls - usage.llm_calls)
