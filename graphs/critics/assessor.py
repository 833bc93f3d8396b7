"""A language model that assesses answers for an evaluation: RAGAs' measures in one call."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from graphs.critics.structured_output import StructuredChat, at_most
from graphs.generation.prompts import one_line
from graphs.text.language import language_of
from graphs.text.prompt_injection import as_data, without_control_tokens
from graphs.types import Usage
from prompts import prompt

_NONE = "-"
MAX_LINES = 40
"""Named of one kind."""


class Miscited(BaseModel):
    """A marker whose source does not support its sentence."""

    sentence: int
    citation: int


class Assessment(BaseModel):
    """What is asked of an answer, by line numbers from 1; findings stand before grades."""

    helpful: Annotated[list[int], at_most(MAX_LINES)]
    unsupported: Annotated[list[int], at_most(MAX_LINES)]
    miscited: Annotated[list[Miscited], at_most(MAX_LINES)]
    relevance: Annotated[int, Field(ge=1, le=5)]
    correct: Annotated[int, Field(ge=0, le=2)]


class Assessor:
    """Asks once an answer. Raises GeneratorFailed, CriticFailed."""

    def __init__(self, chat: BaseChatModel) -> None:
        self._chat = StructuredChat(chat, Assessment)

    async def assess(
        self,
        question: str,
        knowledge: Sequence[tuple[int | None, str]],
        claims: Sequence[tuple[str, Sequence[int]]],
        gold: Sequence[str],
    ) -> tuple[Assessment, Usage]:
        """`knowledge` are its sentences, each with the number that cites its strip, if one does;
        `claims` the answer's sentences with the numbers that they cite."""
        language = language_of(question)
        body = prompt("assess", language).render(
            question=without_control_tokens(question),
            knowledge=_numbered(_marked(n, as_data(one_line(text))) for n, text in knowledge),
            answer=_numbered(_clean(text) + "".join(f"[{n}]" for n in by) for text, by in claims),
            gold=_numbered(_clean(text) for text in gold),
        )
        system = SystemMessage(prompt("assess_system", language).render())
        assessment, _, usage = await self._chat.ask([system, HumanMessage(body)], language)
        return assessment, usage


def _numbered(lines: Iterable[str]) -> str:
    return "\n".join(f"{n}. {line}" for n, line in enumerate(lines, start=1)) or _NONE


def _marked(n: int | None, line: str) -> str:
    return line if n is None else f"[{n}] {line}"


def _clean(text: str) -> str:
    return without_control_tokens(one_line(text))
