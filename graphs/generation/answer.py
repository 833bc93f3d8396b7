"""Drafts: an answer from a question and its knowledge, whoever writes it."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage

from graphs.errors import EvaluatorFailed, GeneratorFailed
from graphs.generation.extractive import (
    best_supported,
    candidate_sentences,
    compose,
    first_sentences,
)
from graphs.generation.prompts import (
    answering_messages,
    direct_messages,
    revising_messages,
    usage_of,
    with_choices,
)
from graphs.grading.relevance import relevance_of
from graphs.ports import ReflectiveGenerator, Services, with_answer
from graphs.text.characters import joined
from graphs.text.citations import prose_of, with_closed_code, with_marker, without_unknown_markers
from graphs.text.language import language_of
from graphs.text.model_output import CLOSES, OPENS, spoken, without_thoughts
from graphs.text.sentences import sentence_spans
from graphs.types import Degraded, Draft, Judgement, Language, Message, Strip, Usage

EXTRACTIVE = "extractive"
WERE_THOUGHTS = "these were the model's thoughts"
CUT: Mapping[str, str] = {
    "length": "The answer is cut off at the language model's limit of tokens;"
    " raise the limit or ask for less.",
    "content_filter": "The answer is cut off by the language model's content filter.",
}
"""What is told of a finish reason that is not the answer's own end."""
_LIST_NUMBER = re.compile(r"\d{1,3}[.)]")  # it may stand alone before a block of code


@dataclass(frozen=True, slots=True)
class Asked:
    """What a draft is written from.

    `graded` says that the strips' scores are the evaluator's, and `keep_best` that something must
    be quoted even where no sentence reaches `floor`. `by_parts` grades sentences by each part of
    the question, too. `choices` is a closed set of answers. `language` is the answer's, where the
    question alone does not tell it.
    """

    question: str
    history: Sequence[Message]
    knowledge: Sequence[Strip]
    floor: float
    graded: bool = True
    keep_best: bool = False
    by_parts: bool = True
    choices: Sequence[str] = ()
    language: Language | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What came of it; `answer` is empty where the knowledge supports none."""

    answer: str
    generator: str
    usage: Usage
    degraded: tuple[Degraded, ...] = ()
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told a draft while it is written, piece by piece, and that what was told is void."""

    tell: Callable[[str], None]
    retract: Callable[[str], None]


NOBODY = Listener(tell=lambda _: None, retract=lambda _: None)


async def draft_from(asked: Asked, services: Services, listener: Listener) -> Written:
    """The draft; where a language model fails, sentences are quoted and `degraded` says so."""
    try:
        if services.reflective is not None:
            return await _reflected(services.reflective, asked, listener)
        if services.chat is not None:
            messages = answering_messages(
                asked.question, asked.history, asked.knowledge, asked.choices, asked.language
            )
            return await written(services, services.chat, messages, len(asked.knowledge), listener)
    except GeneratorFailed as error:
        listener.retract(str(error))  # what the model has said so far is void
        return after_failure(error, await quoted(asked, services, listener))
    return await quoted(asked, services, listener)


def after_failure(error: GeneratorFailed, stand_in: Written) -> Written:
    """What was quoted where the model failed, which is told and counted."""
    return replace(
        stand_in,
        usage=stand_in.usage + Usage(llm_calls=1),
        degraded=(Degraded(error.component, str(error)), *stand_in.degraded),
    )


async def answer_directly(asked: Asked, services: Services, listener: Listener) -> Written:
    """An answer from what the model knows; empty where there is no model, or it fails."""
    nothing = Written("", EXTRACTIVE, Usage())
    try:
        if services.reflective is not None:
            return await _reflected(services.reflective, asked, listener)
        if services.chat is not None:
            messages = direct_messages(asked.question, asked.history, asked.choices, asked.language)
            return await written(services, services.chat, messages, 0, listener)
    except GeneratorFailed as error:
        listener.retract(str(error))
        return after_failure(error, nothing)
    return nothing


async def revise_from(
    asked: Asked, draft: Draft, criticism: str, services: Services, listener: Listener
) -> Written:
    """The answer written anew by the model, in the light of the criticism; empty where it fails.

    A model that writes reflection tokens is not asked again about the same knowledge: it takes no
    criticism and would repeat itself.
    """
    try:
        if services.chat is not None:
            messages = revising_messages(
                asked.question,
                asked.history,
                asked.knowledge,
                draft.answer,
                criticism,
                asked.choices,
                asked.language,
            )
            return await written(services, services.chat, messages, len(asked.knowledge), listener)
        if services.reflective is not None and len(asked.knowledge) > len(draft.knowledge):
            return await _reflected(services.reflective, asked, listener)
    except GeneratorFailed as error:
        listener.retract(str(error))
        return after_failure(error, Written("", draft.generator, Usage()))
    return Written("", draft.generator, Usage())


async def written(
    services: Services,
    chat: BaseChatModel,
    messages: Sequence[BaseMessage],
    known: int,
    listener: Listener,
) -> Written:
    """What the chat model says, told as it streams; markers above `known` are left out.

    Raises GeneratorFailed.
    """
    whole, finish_reason = AIMessageChunk(content=""), ""

    async def texts() -> AsyncIterator[str]:
        nonlocal whole, finish_reason
        async for chunk in chat.astream(list(messages)):
            whole += chunk
            finish_reason = str(chunk.response_metadata.get("finish_reason") or finish_reason)
            if text := str(chunk.text):
                yield text

    pieces: list[str] = []
    async for text in without_unknown_markers(spoken(joined(texts())), known):
        pieces.append(text)
        listener.tell(text)
    answer = "".join(pieces)
    if CLOSES in answer and OPENS not in answer:  # the prompt opened them, so they were told
        answer = without_thoughts(answer)
        listener.retract(WERE_THOUGHTS)
        listener.tell(answer)
    if not answer.strip():
        raise GeneratorFailed("The language model gave an empty answer.")
    return Written(answer, services.chat_name, usage_of(whole), cut_short(finish_reason))


def cut_short(finish_reason: str) -> tuple[Degraded, ...]:
    """Tells an answer that the model did not bring to its end; it is kept as it is."""
    why = CUT.get(finish_reason)
    return (Degraded("generator", why),) if why else ()


async def quoted(asked: Asked, services: Services, listener: Listener) -> Written:
    """The best supported sentences of the knowledge; none where none is supported."""
    if asked.choices:
        return await _picked(asked, services, listener)
    candidates = candidate_sentences(asked.knowledge)
    texts = [item.text for item in candidates]
    usage, degraded = Usage(), tuple[Degraded, ...]()
    try:
        graded = await relevance_of(
            asked.question, texts, services.evaluator, by_parts=asked.by_parts
        )
    except EvaluatorFailed as error:
        # Graded strips may be quoted; of ungraded ones nobody knows whether they answer anything.
        chosen = first_sentences(candidates) if asked.graded else []
        degraded = (Degraded(error.component, str(error)),)
    else:
        chosen = best_supported(
            candidates, graded.best, asked.floor, graded=asked.graded, keep_best=asked.keep_best
        )
        usage = graded.usage
        if unscored := graded.best.count(None):
            told = f"{unscored} sentences of the knowledge could not be graded."
            degraded = (Degraded("evaluator", told),)
    pieces = compose(chosen)
    for text in pieces:
        listener.tell(text)
    return Written("".join(pieces), EXTRACTIVE, usage, degraded)


async def _picked(asked: Asked, services: Services, listener: Listener) -> Written:
    """The one of the choices that the knowledge supports best, cited with its strip."""
    pairs = [
        (with_answer(asked.question, choice), strip.text)
        for strip in asked.knowledge
        for choice in asked.choices
    ]
    try:
        scores = (await services.evaluator.score("support", pairs)).values
    except EvaluatorFailed as error:
        return Written("", EXTRACTIVE, Usage(), (Degraded(error.component, str(error)),))
    places = [(n, choice) for n in range(len(asked.knowledge)) for choice in asked.choices]
    told = [
        (score, place) for score, place in zip(scores, places, strict=True) if score is not None
    ]
    usage, unscored = Usage(scored_pairs=len(pairs)), len(pairs) - len(told)
    why = f"{unscored} of {len(pairs)} pairs of choice and knowledge could not be scored."
    degraded = (Degraded("evaluator", why),) if unscored else ()
    if not told:
        return Written("", EXTRACTIVE, usage, degraded)
    _, (n, choice) = max(told, key=lambda item: item[0])
    answer = with_marker(choice, n + 1)
    listener.tell(answer)
    return Written(answer, EXTRACTIVE, usage, degraded)


async def _reflected(reflective: ReflectiveGenerator, asked: Asked, listener: Listener) -> Written:
    """What a model writes that judges itself: it knows no markers, its passage is cited for it."""
    language = asked.language or language_of(asked.question)
    question = with_choices(asked.question, asked.choices, language)
    reply = await reflective.write(question, one_passage(asked.knowledge))
    answer = cited(reply.text) if asked.knowledge else reply.text
    if not answer.strip():
        raise GeneratorFailed("The language model gave an empty answer.")
    listener.tell(answer)
    told = cut_short(reply.finish_reason)
    return Written(answer, reflective.name, reply.usage, told, reply.judgement)


def one_passage(knowledge: Sequence[Strip]) -> Strip | None:
    """The knowledge as the one passage such a model reads; under the first strip's title."""
    if not knowledge:
        return None
    return replace(knowledge[0], text="\n".join(strip.text for strip in knowledge))


def cited(text: str) -> str:
    """Every sentence with the marker of the one passage it was written from, outside of code."""
    text = text.strip()
    prose, pieces, at = prose_of(text), list[str](), 0
    for start, end in sentence_spans(prose):
        said = with_closed_code(text[start:end])
        is_list_number = said != text and _LIST_NUMBER.fullmatch(said)
        has_words = any(map(str.isalnum, prose[start:end])) and not is_list_number
        pieces += [text[at:start], with_marker(said, 1) if has_words else said]
        at = end
    return "".join([*pieces, text[at:]])
