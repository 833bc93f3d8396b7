"""A document's part in an answer, said in fewer words by a language model (RECOMP, abstractive)."""

import re
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from graphs.errors import GeneratorFailed
from graphs.generation.prompts import text_of, usage_of
from graphs.text.language import language_of
from graphs.text.sentences import word_count
from graphs.types import Degraded, Strip, Usage
from prompts import prompt

FEWEST_WORDS = 20
"""A summary may always have as many: a single fact needs its sentence."""

_NOTHING = re.compile(r"[\W_]*+(?:none|无|無)?[\W_]*+", re.IGNORECASE)
_LABEL = re.compile(r"^\s*(?:summary|摘要)\s*[:：]\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Summary:
    """`text` is empty where the document says nothing to the question, None where nobody knows."""

    text: str | None
    usage: Usage
    degraded: tuple[Degraded, ...] = ()


async def summary_of(question: str, document: Strip, ratio: float, chat: BaseChatModel) -> Summary:
    """What the document says to the question, in about `ratio` of its words."""
    language = language_of(question)
    asked = prompt("compress", language).render(
        question=" ".join(question.split()),
        title=" ".join(document.title.split()),
        text=document.text,
        words=str(words_for(document.text, ratio)),
    )
    try:
        reply = await chat.ainvoke(
            [SystemMessage(prompt("compress_system", language).render()), HumanMessage(asked)]
        )
    except GeneratorFailed as error:
        return Summary(None, Usage(llm_calls=1), (Degraded(error.component, str(error)),))
    return Summary(as_summary(text_of(reply)), usage_of(reply))


def words_for(text: str, ratio: float) -> int:
    """English words, or as many pairs of Chinese characters."""
    return max(FEWEST_WORDS, round(word_count(text) * ratio))


def as_summary(reply: str) -> str:
    """The reply without a label; empty where it says that there is nothing to say."""
    text = _LABEL.sub("", reply).strip()
    return "" if _NOTHING.fullmatch(text) else text
