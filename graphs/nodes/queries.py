"""Queries of the retrieval: the follow-up worded by the model, the question expanded."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage
from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.generation import prompts
from graphs.generation.replies import ModelReply, reply_to
from graphs.nodes.prepare import parts_to_grade, plan_of
from graphs.options import Expansion
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of, total_usage
from graphs.text.language import language_of, spoken_in
from graphs.text.model_output import without_fence
from graphs.text.questions import keeps_identifiers, subquestions_of
from graphs.types import Degraded, Message, Usage

MAX_QUESTION_CHARS = 600
_QUOTES = '"“”「」`* \t\n'
_LABEL = re.compile(
    r"^[*#\s]*+(?:(?:standalone )?question|(?:[独獨]立的?)?[问問][题題])[*\s]*+[:：][*\s]*+",
    re.IGNORECASE,
)

_ADDRESS = re.compile(r"\b(?:\w{1,20}://|www\.|(?:site|inurl|filetype):)[^\s)?？]*+", re.IGNORECASE)


async def contextualise(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The question as the model words it; where it fails, or says no question, the rule's stays."""
    context, question = options_of(runtime), state["question"]
    history = state.get("history", [])
    affordable = services.within_budget(total_usage(state), context)
    reply = await reply_to(prompts.contextualising_messages(question, history), affordable)
    update: State = {"usage": reply.usage, "degraded": list(reply.degraded)}
    worded = as_question(reply.text, question, history) if reply.text else ""
    if not worded:
        return update
    standalone = None if worded.casefold() == question.casefold() else worded
    plan = plan_of(state, context, services)
    return {
        **update,
        "standalone_question": standalone,
        "plan": replace(plan, subquestions=parts_to_grade(standalone or question, context)),
    }


def as_question(reply: str, question: str, history: Sequence[Message] = ()) -> str:
    """The reply where it is one line, of a question's length and in its language, else "".

    It keeps the question's names and numbers; an address in it has to be one that the user gave.
    """
    text = _LABEL.sub("", without_fence(reply)).strip(_QUOTES)
    is_long = len(text) > max(MAX_QUESTION_CHARS, 2 * len(question))
    if "\n" in text or is_long or language_of(text) != spoken_in(question, history):
        return ""
    if not keeps_identifiers(text, question):
        return ""
    texts = [question, *(turn["content"] for turn in history if turn["role"] == "user")]
    return text if set(_ADDRESS.findall(text)) <= set(_ADDRESS.findall("\n".join(texts))) else ""


NEEDS_MODEL = Degraded(
    "generator",
    "expand by rewrite or hyde needs a language model with calls left; the question was searched.",
)


async def expand(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The question itself, then what the run makes of it: one call each, side by side.

    A call that fails is told, and its query left out, as one is that loses the question's names
    and numbers. Without a language model a question is
    decomposed by rule; the other ways are told to be missing, unless a preset asked for them.
    No more calls are made than the run has left.
    """
    context, question = options_of(runtime), effective_question(state)
    usage = total_usage(state)
    affordable = services.within_budget(usage, context)
    messages: dict[Expansion, list[BaseMessage]] = {
        "rewrite": prompts.clarifying_messages(question, state.get("history", [])),
        "decompose": prompts.decomposing_messages(question),
        "hyde": prompts.hyde_messages(question),
    }
    ways = [way for way in messages if way in context.expand][: context.calls_left(usage)]
    replies = await gather_with_concurrency(
        None, *(reply_to(messages[way], affordable) for way in ways)
    )
    by_way = defaultdict(ModelReply, zip(ways, replies, strict=True))
    parts = prompts.as_subquestions(by_way["decompose"].text)
    if not keeps_identifiers("\n".join(parts), question):
        parts = []
    if "decompose" in context.expand and not parts:
        parts = subquestions_of(question)
    clearer = prompts.as_query(by_way["rewrite"].text)
    if not keeps_identifiers(clearer, question):
        clearer = ""
    made = [prompts.as_passage(by_way["hyde"].text, question), clearer, *parts]
    degraded = [entry for reply in replies for entry in reply.degraded]
    is_own_choice = "expand" in context.model_fields_set
    if affordable.chat is None and is_own_choice and context.expand != ["decompose"]:
        degraded.append(NEEDS_MODEL)
    return {
        "queries": prompts.queries_of(question, made),
        "usage": sum((reply.usage for reply in replies), Usage()),
        "degraded": list(dict.fromkeys(degraded)),
    }
