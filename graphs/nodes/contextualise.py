"""Make a follow-up question stand alone, from the dialogue before it."""

from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime

from graphs.budget import within_budget
from graphs.dialogue import contextualising_messages, text_of, usage_of
from graphs.errors import GeneratorFailed
from graphs.followups import standalone
from graphs.ports import Services
from graphs.state import Context, Reflecting, State, tunables
from graphs.text import language_of
from graphs.types import Degraded, Message, Usage

LONGEST_QUESTION = 600


async def contextualise(
    state: State,
    runtime: Runtime[Context],
    *,
    services: Services,
) -> Reflecting:
    """The standalone form, or None where the question needs none.

    Without a language model, or where it fails or replies no question, it is made by rule.
    """
    question, history = state["question"], state.get("history", [])
    changed, told = Reflecting(), ""
    if (chat := within_budget(state, tunables(runtime), services).chat) is not None:
        try:
            told, changed["usage"] = await _told_by(chat, question, history)
        except GeneratorFailed as error:
            changed["usage"] = Usage(llm_calls=1)
            changed["degraded"] = [Degraded(error.component, str(error))]
    found = told or await standalone(question, history, services.keyword_extractor)
    is_new = found is not None and found.casefold() != question.casefold()
    return {**changed, "standalone_question": found if is_new else None}


async def _told_by(chat: BaseChatModel, question: str, history: list[Message]) -> tuple[str, Usage]:
    reply = await chat.ainvoke(contextualising_messages(question, history))
    return as_question(text_of(reply), question), usage_of(reply)


def as_question(reply: str, question: str) -> str:
    """The reply where it is one line in the question's language and of its kind, else ""."""
    text = reply.strip().strip('"“”「」`')
    if "\n" in text or len(text) > max(LONGEST_QUESTION, 2 * len(question)):
        return ""
    return text if language_of(text) == language_of(question) else ""
