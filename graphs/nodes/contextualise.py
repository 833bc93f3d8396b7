"""Make a follow-up question stand alone, from the dialogue before it."""

import re
from collections.abc import Sequence
from itertools import pairwise

from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime

from graphs.errors import GeneratorFailed
from graphs.followups import standalone
from graphs.generation.prompts import LATEST_TURNS, contextualising_messages, text_of, usage_of
from graphs.generation.query_expansion import without_fence
from graphs.leaning import content_of
from graphs.ports import Services
from graphs.reflection.budget import within_budget
from graphs.state import Context, Reflecting, State, tunables
from graphs.text.language import language_of, spoken_in
from graphs.text.sentences import HAN
from graphs.text.subquestions import is_question
from graphs.types import Degraded, Message, Usage

LONGEST_QUESTION = 600
_QUOTES = '"“”「」`* \t\n'
_LABEL = re.compile(
    r"^[*#\s]*+(?:(?:standalone )?question|(?:[独獨]立的?)?[问問][题題])[*\s]*+[:：][*\s]*+",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"i['’]?m sorry|i am sorry|sorry|as an ai\b|n/a\W*\Z|很?抱歉|[对對]不起", re.IGNORECASE
)
# So begins a refusal, or the question of someone who cannot get on.
_IS_UNABLE = re.compile(
    r"(?:i(?: a|['’])m afraid (?:that )?)?(?:i can(?:no|['’])t|i(?: a|['’])m (?:unable|not able))"
    r"|(?:作[为為][^，,]{1,16}[，,]\s*)?我(?:[无無]法|不能)",
    re.IGNORECASE,
)
_CANNOT_GET_ON = re.compile(
    r"\b(?:can['’]?t|cannot|couldn['’]?t|unable|not able)\b"
    r"|[无無没沒]法|(?<!能)不能|不[了到开開上]",
    re.IGNORECASE,
)


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
    return as_question(text_of(reply), question, history), usage_of(reply)


def as_question(reply: str, question: str, history: Sequence[Message] = ()) -> str:
    """The reply where it is one line in the question's language and of its kind, else "".

    An answer asks nothing where the question does; a refusal has no word of the dialogue.
    """
    text = _LABEL.sub("", without_fence(reply)).strip(_QUOTES)
    if "\n" in text or len(text) > max(LONGEST_QUESTION, 2 * len(question)):
        return ""
    if language_of(text) != spoken_in(question, history) or _refuses(text, question):
        return ""
    if text.casefold() == question.casefold():
        return text
    said = _pieces(question, *(turn["content"] for turn in history[-LATEST_TURNS:]))
    keeps_asking = is_question(text) or not is_question(question)
    return text if keeps_asking and (not said or _pieces(text) & said) else ""


def _refuses(reply: str, question: str) -> bool:
    is_unable = _IS_UNABLE.match(reply) and not _CANNOT_GET_ON.search(question)
    return bool(_REFUSES.match(reply) or is_unable)


def _pieces(*texts: str) -> set[str]:
    """Their own words, Chinese ones by pairs of ideographs, which are read without a dictionary."""
    words = [word.casefold() for text in texts for word in content_of(text)]
    return {
        piece
        for word in words
        for piece in (map("".join, pairwise(word)) if HAN.match(word) and len(word) > 1 else [word])
    }
