"""A chat model as critic: grades in JSON, weighted by its log-probabilities where given."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables.utils import gather_with_concurrency
from pydantic import BaseModel, Field, WithJsonSchema

from graphs.critics.structured_output import (
    PLAIN,
    FallbackChat,
    StructuredChat,
    at_most,
    token_probabilities,
)
from graphs.errors import CriticFailed, GeneratorFailed
from graphs.generation.prompts import text_of
from graphs.reflection import scores
from graphs.text.citations import without_markers
from graphs.text.language import language_of
from graphs.text.prompt_injection import as_data, without_control_tokens
from graphs.text.sentences import sentences
from graphs.types import Bars, Draft, Judgement, Usage
from prompts import prompt

MAX_WEAK = 30
MAX_UNCOVERED, MAX_UNCOVERED_CHARS, MAX_CRITICISM_CHARS = 5, 200, 1500
_NONE = "-"

YesNo = Annotated[int, Field(ge=0, le=1), WithJsonSchema({"type": "integer", "enum": [0, 1]})]
OfThree = Annotated[int, Field(ge=0, le=2), WithJsonSchema({"type": "integer", "enum": [0, 1, 2]})]
OfFive = Annotated[
    int, Field(ge=1, le=5), WithJsonSchema({"type": "integer", "enum": [1, 2, 3, 4, 5]})
]


class DraftVerdict(BaseModel):
    """What is asked about a draft; findings stand before the grade that they explain."""

    relevance: YesNo
    weak: Annotated[list[int], at_most(MAX_WEAK)]
    support: OfThree
    uncovered: Annotated[list[str], at_most(MAX_UNCOVERED)]
    criticism: str = ""
    utility: OfFive


class RetrievalVerdict(BaseModel):
    """Whether the question is to be looked up."""

    retrieval: YesNo


class LlmCritic:
    """Judges each draft by one call, all of them side by side.

    Without log-probabilities a grade counts as if the model were sure of it.
    """

    bars = Bars()

    def __init__(self, chat: BaseChatModel, name: str) -> None:
        self.name = name
        self._graded = StructuredChat(chat, DraftVerdict)
        self._needed = StructuredChat(chat, RetrievalVerdict)
        self._prose = FallbackChat(chat, {"temperature": 0}, PLAIN)

    async def needs_retrieval(self, question: str) -> tuple[float, Usage]:
        language = language_of(question)
        body = prompt("decide", language).render(question=without_control_tokens(question))
        messages = [SystemMessage(prompt("decide_system", language).render()), HumanMessage(body)]
        try:
            verdict, reply, usage = await self._needed.ask(messages, language)
        except GeneratorFailed as error:
            raise CriticFailed(str(error), error.usage) from error
        p = _share(reply, "retrieval", verdict.retrieval, scores.RETRIEVE[::-1], least=0)
        return scores.retrieval_share(p), usage

    async def judge(
        self, question: str, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Judgement], Usage]:
        return await each_judged(partial(self._judged, question), drafts)

    async def criticise(
        self, question: str, draft: Draft, judgement: Judgement, /
    ) -> tuple[str, Usage]:
        """The judgement's own criticism, at no call; else the model writes one."""
        if judgement.criticism:
            return judgement.criticism, Usage()
        try:
            reply, usage = await self._prose.reply(_criticising(question, draft, judgement))
        except GeneratorFailed as error:
            raise CriticFailed(str(error), error.usage) from error
        if not (criticism := text_of(reply)[:MAX_CRITICISM_CHARS]):
            why = "The language model found no words for its criticism; try again."
            raise CriticFailed(why, usage)
        return criticism, usage

    async def _judged(self, question: str, draft: Draft) -> tuple[Judgement, Usage]:
        texts = sentences(draft.answer)
        messages = _judging(question, draft, texts)
        graded, reply, usage = await self._graded.ask(messages, language_of(question))
        judgement = Judgement(
            relevance=scores.relevance(
                _share(reply, "relevance", graded.relevance, scores.RELEVANT[::-1], 0)
            ),
            support=scores.support(
                _share(reply, "support", graded.support, scores.SUPPORT[::-1], 0)
            ),
            utility=scores.utility(_share(reply, "utility", graded.utility, scores.UTILITY, 1)),
            weak=_named(graded.weak, texts),
            uncovered=_in_short(graded.uncovered),
            criticism=graded.criticism.strip()[:MAX_CRITICISM_CHARS],
        )
        if not draft.knowledge:  # nothing that could be relevant or support it
            judgement = replace(judgement, relevance=None, support=None, weak=())
        return judgement, usage


def _share(
    reply: AIMessage, key: str, grade: int, tokens: Sequence[str], least: int
) -> dict[str, float]:
    """p of each reflection token; `tokens` are those of the grades from `least` upwards.

    What the model says around its JSON may quote others' grades.
    """
    graded = re.compile(rf'"{key}"\s*:\s*"?({grade})(?=[^}}]*\}})'.encode())
    weights = token_probabilities(reply, graded)
    p = {token: weights.get(str(n), 0.0) for n, token in enumerate(tokens, start=least)}
    return p if any(p.values()) else {tokens[grade - least]: 1.0}


def _named(numbers: Sequence[int], texts: Sequence[str]) -> tuple[str, ...]:
    """The sentences of these numbers, from 1, as they were before they were cited."""
    lines = (without_markers(texts[n - 1]) for n in sorted(set(numbers)) if 1 <= n <= len(texts))
    return tuple(text for line in lines if (text := line.strip()))


def _in_short(parts: Sequence[str]) -> tuple[str, ...]:
    lines = (" ".join(part.split())[:MAX_UNCOVERED_CHARS] for part in parts)
    return tuple(line for line in lines if line)[:MAX_UNCOVERED]


def _judging(question: str, draft: Draft, texts: Sequence[str]) -> list[BaseMessage]:
    language = language_of(question)
    body = prompt("judge", language).render(
        question=without_control_tokens(question),
        knowledge=_knowledge(draft),
        answer="\n".join(f"{n}. {_line(text)}" for n, text in enumerate(texts, start=1)) or _NONE,
    )
    return [SystemMessage(prompt("judge_system", language).render()), HumanMessage(body)]


def _criticising(question: str, draft: Draft, judgement: Judgement) -> list[BaseMessage]:
    language = language_of(question)
    body = prompt("criticise", language).render(
        question=without_control_tokens(question),
        knowledge=_knowledge(draft),
        answer=without_control_tokens(draft.answer),
        findings="\n".join(map(_line, (*judgement.weak, *judgement.uncovered))) or _NONE,
    )
    return [SystemMessage(prompt("criticise_system", language).render()), HumanMessage(body)]


def _knowledge(draft: Draft) -> str:
    lines = (
        f"[{n}] {as_data(f'({_line(strip.title)}) {_line(strip.text)}')}"
        for n, strip in enumerate(draft.knowledge, start=1)
    )
    return "\n".join(lines) or _NONE


def _line(text: str) -> str:
    return without_control_tokens(" ".join(text.split()))


async def each_judged(
    judged: Callable[[Draft], Awaitable[tuple[Judgement, Usage]]], drafts: Sequence[Draft]
) -> tuple[Sequence[Judgement], Usage]:
    """A judgement a draft, in order; an empty one where its call fails or says nothing readable.

    Raises CriticFailed where all of them do.
    """
    failures: list[str] = []

    async def attempted(draft: Draft) -> tuple[Judgement, Usage]:
        try:
            return await judged(draft)
        except (GeneratorFailed, CriticFailed) as error:
            failures.append(str(error))
            return Judgement(), error.usage

    results = await gather_with_concurrency(None, *map(attempted, drafts))
    usage = sum((each for _, each in results), Usage())
    if failures and len(failures) == len(drafts):
        raise CriticFailed(failures[0], usage)
    return [judgement for judgement, _ in results], usage
