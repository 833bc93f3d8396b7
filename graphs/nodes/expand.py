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
from graphs.generation.query_expansion import as_parts, as_passage, as_query, queries_of
from graphs.ports import Services
from graphs.reflection.budget import calls_left, within_budget
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.text.subquestions import parts_of
from graphs.types import Degraded, Usage

NEEDS_MODEL = Degraded(
    "generator",
    "rewrite_question and hyde need a language model; the question itself was searched.",
)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the language model said; nothing where it was not asked, or failed."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    degraded: tuple[Degraded, ...] = ()


async def expand(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The question itself, then what the run makes of it: one call each, side by side.

    A call that fails is told, and its query left out. Without a language model a question is
    decomposed by rule; the other ways are told to be missing, unless a preset asked for them.
    No more calls are made than the run has left.
    """
    context, question = tunables(runtime), asked(state)
    services = within_budget(state, context, services)
    wanted = [context.rewrite_question, context.decompose, context.hyde]
    clarifies, decomposes, invents = _first(wanted, calls_left(state, context))
    clarified, decomposed, invented = await gather_with_concurrency(
        None,
        _reply(clarifying_messages(question, state.get("history", [])), services, clarifies),
        _reply(decomposing_messages(question), services, decomposes),
        _reply(inventing_messages(question), services, invents),
    )
    parts = as_parts(decomposed.text)
    if context.decompose and not parts:
        parts = parts_of(question)
    made = [as_passage(invented.text, question), as_query(clarified.text), *parts]
    degraded = [*clarified.degraded, *decomposed.degraded, *invented.degraded]
    if services.chat is None and (context.wants("rewrite_question") or context.wants("hyde")):
        degraded.append(NEEDS_MODEL)
    return {
        "queries": queries_of(question, made),
        "usage": clarified.usage + decomposed.usage + invented.usage,
        "degraded": list(dict.fromkeys(degraded)),
    }


def _first(wanted: Sequence[bool], most: int) -> list[bool]:
    """The first `most` of what is wanted."""
    return [is_wanted and sum(wanted[:n]) < most for n, is_wanted in enumerate(wanted)]


async def _reply(messages: Sequence[BaseMessage], services: Services, is_wanted: bool) -> Reply:
    if services.chat is None or not is_wanted:
        return Reply()
    try:
        reply = await services.chat.ainvoke(list(messages))
    except GeneratorFailed as error:
        failed = Degraded(error.component, str(error))
        return Reply(usage=Usage(llm_calls=1), degraded=(failed,))
    return Reply(text_of(reply), usage_of(reply))
