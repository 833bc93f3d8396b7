"""Expand the question into the queries that the knowledge base is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage
from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.errors import GeneratorFailed
from graphs.generation.prompts import (
    clarifying_messages,
    decomposing_messages,
    inventing_messages,
    text_of,
    usage_of,
)
from graphs.generation.query_expansion import as_passage, as_query, as_subquestions, queries_of
from graphs.ports import Services
from graphs.reflection.budget import calls_left, within_budget
from graphs.state import Context, State, effective_question, options_of, total_usage
from graphs.text.subquestions import subquestions_of
from graphs.types import Degraded, Usage

NEEDS_MODEL = Degraded(
    "generator", "expand by rewrite or hyde needs a language model; the question was searched."
)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What the language model said; nothing where it was not asked, or failed."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    degraded: tuple[Degraded, ...] = ()


async def expand(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The question itself, then what the run makes of it: one call each, side by side.

    A call that fails is told, and its query left out. Without a language model a question is
    decomposed by rule; the other ways are told to be missing, unless a preset asked for them.
    No more calls are made than the run has left.
    """
    context, question = options_of(runtime), effective_question(state)
    usage = total_usage(state)
    able = within_budget(usage, context, services)
    wanted = [way in context.expand for way in ("rewrite", "decompose", "hyde")]
    clarifies, decomposes, invents = _first(wanted, calls_left(usage, context))
    clarified, decomposed, invented = await gather_with_concurrency(
        None,
        _reply(clarifying_messages(question, state.get("history", [])), able, clarifies),
        _reply(decomposing_messages(question), able, decomposes),
        _reply(inventing_messages(question), able, invents),
    )
    parts = as_subquestions(decomposed.text)
    if "decompose" in context.expand and not parts:
        parts = subquestions_of(question)
    made = [as_passage(invented.text, question), as_query(clarified.text), *parts]
    degraded = [*clarified.degraded, *decomposed.degraded, *invented.degraded]
    is_own_choice = "expand" in context.model_fields_set
    if able.chat is None and is_own_choice and context.expand != ["decompose"]:
        degraded.append(NEEDS_MODEL)
    return {
        "queries": queries_of(question, made),
        "usage": clarified.usage + decomposed.usage + invented.usage,
        "degraded": list(dict.fromkeys(degraded)),
    }


def _first(wanted: Sequence[bool], most: int) -> list[bool]:
    """The first `most` of what is wanted."""
    return [is_wanted and sum(wanted[:n]) < most for n, is_wanted in enumerate(wanted)]


async def _reply(
    messages: Sequence[BaseMessage], services: Services, is_wanted: bool
) -> ModelReply:
    if services.chat is None or not is_wanted:
        return ModelReply()
    try:
        reply = await services.chat.ainvoke(list(messages))
    except GeneratorFailed as error:
        return ModelReply(usage=Usage(llm_calls=1), degraded=(error.degraded,))
    return ModelReply(text_of(reply), usage_of(reply))
