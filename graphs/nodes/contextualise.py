"""Make a follow-up question stand alone by the language model, from the dialogue before it."""

import re
from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import GeneratorFailed
from graphs.generation.prompts import contextualising_messages, text_of, usage_of
from graphs.grading.plan import parts_to_grade, plan_of
from graphs.ports import Services
from graphs.reflection.budget import within_budget
from graphs.state import Context, State, options_of, total_usage
from graphs.text.language import language_of, spoken_in
from graphs.text.model_output import without_fence
from graphs.types import Message, Usage

MAX_QUESTION_CHARS = 600
_QUOTES = '"“”「」`* \t\n'
_LABEL = re.compile(
    r"^[*#\s]*+(?:(?:standalone )?question|(?:[独獨]立的?)?[问問][题題])[*\s]*+[:：][*\s]*+",
    re.IGNORECASE,
)


async def contextualise(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The question as the model words it; where it fails, or says no question, the rule's stays."""
    context, question = options_of(runtime), state["question"]
    history = state.get("history", [])
    chat = within_budget(total_usage(state), context, services).chat
    if chat is None:
        return {}
    try:
        reply = await chat.ainvoke(contextualising_messages(question, history))
    except GeneratorFailed as error:
        return {"usage": Usage(llm_calls=1), "degraded": [error.degraded]}
    worded = as_question(text_of(reply), question, history)
    if not worded:
        return {"usage": usage_of(reply)}
    standalone = None if worded.casefold() == question.casefold() else worded
    plan = plan_of(state, context, services)
    return {
        "standalone_question": standalone,
        "plan": replace(plan, subquestions=parts_to_grade(standalone or question, context)),
        "usage": usage_of(reply),
    }


def as_question(reply: str, question: str, history: Sequence[Message] = ()) -> str:
    """The reply where it is one line, of a question's length and in its language, else ""."""
    text = _LABEL.sub("", without_fence(reply)).strip(_QUOTES)
    is_long = len(text) > max(MAX_QUESTION_CHARS, 2 * len(question))
    if "\n" in text or is_long or language_of(text) != spoken_in(question, history):
        return ""
    return text
