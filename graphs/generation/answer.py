"""Answer generation: a draft from a question and its knowledge, whoever writes it."""

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.runtime import Runtime

from graphs.errors import AnswerInterrupted, EvaluatorFailed, GeneratorFailed
from graphs.generation.choices import choice_of, supported_choice
from graphs.generation.extractive import (
    Quotable,
    best_pieces,
    compose,
    pieces_of,
    quoted_sentences,
    with_each_part,
)
from graphs.generation.prompts import (
    DraftRequest,
    answering_messages,
    direct_messages,
    revising_messages,
    text_of,
    usage_of,
)
from graphs.grading.actions import uses_documents
from graphs.grading.relevance import best_place, relevance_of
from graphs.grading.strips import evaluator_text
from graphs.options import Context
from graphs.ports import ReflectiveGenerator, Services, with_answer
from graphs.state import State, effective_question
from graphs.text.citations import (
    cited_numbers,
    prose_of,
    whole_sentences,
    with_closed_code,
    with_marker,
    without_markers,
    without_unknown_markers,
)
from graphs.text.inert_markup import InertMarkup, markup_of
from graphs.text.model_output import (
    THINK_CLOSE,
    THINK_OPEN,
    joined_characters,
    prompt_tags_removed,
    without_opening_reasoning,
    without_reasoning,
)
from graphs.text.questions import is_courtesy
from graphs.text.repetition import REPETITION, before_repeats
from graphs.text.sentences import sentence_spans
from graphs.types import Degraded, Draft, Judgement, Language, Plan, StoppedBy, Strip, Usage
from prompts import prompt

EXTRACTIVE = "extractive"
REASONING_REMOVED = "the model's reasoning is removed"
CUT_SHORT: Mapping[str, str] = {
    "length": "The answer is cut off at the language model's limit of tokens;"
    " raise the limit or ask for less.",
    "content_filter": "The answer is cut off by the language model's content filter.",
    REPETITION: "The language model began to repeat itself and was stopped.",
    "deadline": "The answer is cut off at the run's deadline; allow more time or ask for less.",
}
"""What `degraded` says of a finish reason that is not the answer's own end."""
_LIST_NUMBER = re.compile(r"\d{1,3}[.)]")  # it may stand alone before a block of code


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """What a generator wrote; `answer` is empty where the knowledge supports none.

    `cites` are the strips behind an answer of a closed set, which holds no markers itself;
    `missing` are the parts of the question that its last paragraph names as not found.
    """

    answer: str
    generator: str
    usage: Usage
    degraded: tuple[Degraded, ...] = ()
    judgement: Judgement | None = None
    cites: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()

    def as_draft(self, knowledge: Sequence[Strip], n: int = 1) -> Draft:
        """A draft from this knowledge."""
        return Draft(
            self.answer,
            tuple(knowledge),
            n,
            self.generator,
            self.judgement,
            cites=self.cites,
            missing=self.missing,
        )


@dataclass(frozen=True, slots=True)
class Listener:
    """Receives a draft's tokens as they stream, and the retraction of a draft."""

    token: Callable[[str], None]
    retract: Callable[[str], None]


NO_LISTENER = Listener(token=lambda _: None, retract=lambda _: None)


LIKELIER_THAN_NOT = 0.0
"""The relevance (2p - 1) of what is as likely to answer as not."""


def streamed(runtime: Runtime[Context], round_: int = 0) -> Listener:
    """Tells a draft as `token` events of this round."""
    return Listener(
        token=lambda text: runtime.stream_writer({"token": {"round": round_, "text": text}}),
        retract=lambda why: runtime.stream_writer({"retract": {"round": round_, "reason": why}}),
    )


def answering_floor(plan: Plan) -> float:
    """The score that a strip needs to be quoted.

    Graded like a passage that makes the action Incorrect, it answers nothing; but strips are not
    graded in a pool as passages are, and what answers likelier than not is below no such bar.
    """
    return max(plan.thresholds.strip_floor, min(plan.thresholds.lower, LIKELIER_THAN_NOT))


def request_of(
    state: State, knowledge: Sequence[Strip], plan: Plan, context: Context
) -> DraftRequest:
    """The run's question with this knowledge, and how much of it may be quoted.

    Where no graded passage stands behind a strip (`rag`, the web alone), nothing but its own score
    speaks for it: it must reach `upper`, or what answers likelier than not where that is lower.
    """
    floor = answering_floor(plan)
    graded = [passage for passage in state.get("documents", []) if passage.relevance is not None]
    if not graded or not uses_documents(state.get("action")):
        floor = max(floor, min(plan.thresholds.upper, LIKELIER_THAN_NOT))
    return DraftRequest(
        question=effective_question(state),
        history=state.get("history", []),
        knowledge=knowledge,
        floor=floor,
        language=plan.language,
        subquestions=plan.subquestions,
        choices=context.choices,
        original_question=state["question"],
        with_titles=context.ablation.grade_titles,
    )


def abstention(question: str, language: Language, why: StoppedBy) -> str:
    """A sentence that admits not knowing, says why a run ended early, or returns a greeting."""
    if why in ("deadline", "cancelled"):
        return prompt(why, language).render()
    return prompt("courtesy" if is_courtesy(question) else "unknown", language).render()


async def generate_answer(
    request: DraftRequest, services: Services, listener: Listener
) -> GeneratedText:
    """The answer; where a language model fails, `degraded` says so.

    The fallback model answers then; without one, sentences are quoted.
    """
    quoted = partial(quote, request, services, listener)
    return await _by_model(request, services, listener, answering_messages, quoted)


async def answer_directly(
    request: DraftRequest, services: Services, listener: Listener
) -> GeneratedText:
    """An answer from what the model knows; empty where there is no model, or it fails."""
    nothing = partial(_nothing, EXTRACTIVE)
    return await _by_model(request, services, listener, direct_messages, nothing)


async def revise_answer(
    request: DraftRequest, draft: Draft, criticism: str, services: Services, listener: Listener
) -> GeneratedText:
    """The answer written anew by the model, in the light of the criticism; empty where it fails.

    A model that writes reflection tokens is not asked again about the same knowledge: it takes no
    criticism and would repeat itself.
    """
    if services.chat is not None or len(request.knowledge) <= len(draft.knowledge):
        services = replace(services, reflective=None)
    messages = partial(revising_messages, answer=draft.answer, criticism=criticism)
    nothing = partial(_nothing, draft.generator)
    return await _by_model(request, services, listener, messages, nothing)


async def _nothing(generator: str) -> GeneratedText:
    return GeneratedText("", generator, Usage())


async def _by_model(
    request: DraftRequest,
    services: Services,
    listener: Listener,
    messages: Callable[[DraftRequest], list[BaseMessage]],
    stand_in: Callable[[], Awaitable[GeneratedText]],
) -> GeneratedText:
    """What the model writes, or where it fails the fallback model; without both the stand-in."""
    text_listener = NO_LISTENER if request.choices else listener
    try:
        if services.reflective is not None:
            written = await _by_reflective(services, services.reflective, request, text_listener)
        elif services.chat is not None:
            prompt_messages = messages(request)
            written = await _by_chat(
                services, services.chat, prompt_messages, request, text_listener
            )
        else:
            return await stand_in()
        return await _closed(written, request, services, listener)
    except GeneratorFailed as error:
        text_listener.retract(str(error))  # what the model has said so far is void
        degraded = error.degraded
        if (other := services.fallen_back) is None:
            again = await stand_in()
        else:
            again = await _by_model(request, other, listener, messages, stand_in)
            if again.answer and again.generator == other.chat_name:
                degraded = error.answered_by(other.chat_name)
        usage = error.usage + again.usage
        return replace(again, usage=usage, degraded=(degraded, *again.degraded))


async def _closed(
    written: GeneratedText, request: DraftRequest, services: Services, listener: Listener
) -> GeneratedText:
    """The generated text; of a closed set the matching choice, streamed only now."""
    if not request.choices:
        return written
    choice, usage = choice_of(written.answer, request.choices), Usage()
    degraded = written.degraded
    if choice is None:
        text = without_markers(written.answer)
        try:
            choice, usage = await supported_choice(
                request.question, text, request.choices, services.evaluator
            )
        except EvaluatorFailed as error:
            usage, degraded = error.usage, (*degraded, error.degraded)
    if choice:
        listener.token(choice)
    return replace(
        written,
        answer=choice or "",
        cites=tuple(cited_numbers(written.answer)),
        usage=written.usage + usage,
        degraded=degraded,
    )


async def _by_chat(
    services: Services,
    chat: BaseChatModel,
    messages: Sequence[BaseMessage],
    request: DraftRequest,
    listener: Listener,
) -> GeneratedText:
    """The chat model's answer, streamed; markers of no strip are left out.

    One that the deadline or the limit of tokens cuts off ends with its last whole sentence.

    Raises GeneratorFailed.
    """
    reply = _Reply()
    texts = reply.texts(chat, messages, may_be_cut=not request.choices)
    spoken, pieces, markup = "", list[str](), _markup(request, services)
    chunks = prompt_tags_removed(without_opening_reasoning(joined_characters(texts)))
    async for text in without_unknown_markers(chunks, len(request.knowledge)):
        spoken += text
        if shown := markup.feed(text):
            pieces.append(shown)
            listener.token(shown)
    if shown := markup.end():
        pieces.append(shown)
        listener.token(shown)
    answer = "".join(pieces)
    # The prompt opened the reasoning, so it was heard.
    if THINK_CLOSE in spoken and THINK_OPEN not in spoken:
        markup = _markup(request, services)
        answer = markup.whole(without_reasoning(spoken))
        listener.retract(REASONING_REMOVED)
        listener.token(answer)
    if (whole := _without_unfinished(answer, reply.finish_reason, request)) != answer:
        answer = whole
        listener.retract(CUT_SHORT[reply.finish_reason])
        listener.token(answer)
    if not answer.strip():
        raise GeneratorFailed("The language model gave an empty answer.", reply.usage)
    degraded = (*cut_short(reply.finish_reason), *markup.degraded)
    return GeneratedText(answer, services.chat_name, reply.usage, degraded)


class _Reply:
    """A chat model's reply as it comes; at its end why it ended, and what it has cost."""

    def __init__(self) -> None:
        self.finish_reason, self.usage = "", Usage()

    async def texts(
        self, chat: BaseChatModel, messages: Sequence[BaseMessage], *, may_be_cut: bool
    ) -> AsyncIterator[str]:
        """Ends at the deadline as well, if the reply has a whole sentence and `may_be_cut`.

        Raises GeneratorFailed.
        """
        reply = AIMessageChunk(content="")
        try:
            async for chunk in chat.astream(list(messages)):
                reply += chunk
                reason = chunk.response_metadata.get("finish_reason")
                self.finish_reason = str(reason or self.finish_reason)
                if text := str(chunk.text):
                    yield text
            self.usage = usage_of(reply)
        except AnswerInterrupted as error:
            if not may_be_cut or not whole_sentences(text_of(reply)):
                raise
            self.finish_reason, self.usage = "deadline", error.usage


def _markup(request: DraftRequest, services: Services) -> InertMarkup:
    """That of the answer; a choice of a closed set is the caller's own text."""
    return markup_of(request.knowledge, "all" if request.choices else services.answer_links)


def _without_unfinished(answer: str, finish_reason: str, request: DraftRequest) -> str:
    """Without the sentence that was cut off, unless it is the only one or a choice.

    Of a loop one round stays.
    """
    if finish_reason not in ("length", "deadline", REPETITION) or request.choices:
        return answer
    whole = whole_sentences(answer) or answer
    if finish_reason == REPETITION:
        return before_repeats(whole)
    return before_repeats(whole, rounds=3, may_count=False)


def cut_short(finish_reason: str) -> tuple[Degraded, ...]:
    """Tells an answer that the model did not bring to its end."""
    why = CUT_SHORT.get(finish_reason)
    return (Degraded("generator", why),) if why else ()


async def quote(request: DraftRequest, services: Services, listener: Listener) -> GeneratedText:
    """The best strips of the knowledge; none where none answers."""
    if request.choices:
        return await _choose(request, services, listener)
    parts, unnamed = request.answerable()
    if not parts:
        return GeneratedText("", EXTRACTIVE, Usage())
    pieces, grades = pieces_of(request.knowledge), dict[str, Sequence[float | None]]()
    usage, degraded = Usage(), tuple[Degraded, ...]()
    try:
        pieces, grades, usage = await _graded(request, parts, pieces, services)
    except EvaluatorFailed as error:
        # Graded strips may be quoted; of ungraded ones nobody knows whether they answer anything.
        usage, degraded = error.usage, (error.degraded,)
    else:
        if unscored := sum(piece.grade is None for piece in pieces):
            reason = f"{unscored} strips of the knowledge could not be graded."
            degraded = (Degraded("evaluator", reason),)
    chosen = best_pieces(pieces, request.floor)
    chosen, missing = with_each_part(chosen, pieces, grades, request.floor)
    missing = [part for part in request.subquestions if chosen and part in {*missing, *unnamed}]
    markup = _markup(request, services)
    quoted = compose(quoted_sentences(chosen), missing, request.language)
    texts = [text for text in (*map(markup.feed, quoted), markup.end()) if text]
    for text in texts:
        listener.token(text)
    degraded += markup.degraded
    return GeneratedText("".join(texts), EXTRACTIVE, usage, degraded, missing=tuple(missing))


async def _graded(
    request: DraftRequest, parts: Sequence[str], pieces: Sequence[Quotable], services: Services
) -> tuple[list[Quotable], dict[str, Sequence[float | None]], Usage]:
    """Pieces with their grades, and all of them for each part, in one request at most.

    Where a part of the question is left out, the others alone grade.
    """
    is_whole = len(parts) == max(1, len(request.subquestions))
    read = [piece for piece in pieces if request.subquestions or piece.grade is None]
    if not read:
        return list(pieces), {}, Usage()
    questions = list(dict.fromkeys([request.question, *parts] if is_whole else parts))
    texts = [evaluator_text(piece.strip, request.with_titles) for piece in read]
    graded = await relevance_of(questions, texts, services.evaluator)
    own = {
        piece: replace(piece, strip=replace(piece.strip, similarity=similarity), grade=grade)
        for piece, grade, similarity in zip(read, graded.best, graded.similarities, strict=True)
    }
    known = [own[p] if p.grade is None or not is_whole else p for p in pieces]
    by_part: dict[str, Sequence[float | None]] = dict(
        zip(questions, graded.by_question, strict=True)
    )
    grades = {part: by_part[part] for part in parts if request.subquestions}
    return known, grades, graded.usage


async def _choose(request: DraftRequest, services: Services, listener: Listener) -> GeneratedText:
    """The one of the choices that the knowledge supports best, and the strip that does."""
    places = [(n, choice) for n in range(len(request.knowledge)) for choice in request.choices]
    pairs = [
        (with_answer(request.question, choice), request.knowledge[n].text) for n, choice in places
    ]
    try:
        scores = (await services.evaluator.score("support", pairs)).values
    except EvaluatorFailed as error:
        return GeneratedText("", EXTRACTIVE, Usage(), (error.degraded,))
    at = best_place(scores, -math.inf)
    usage, unscored = Usage(scored_pairs=len(pairs)), sum(score is None for score in scores)
    reason = f"{unscored} of {len(pairs)} pairs of choice and knowledge could not be scored."
    degraded = (Degraded("evaluator", reason),) if unscored else ()
    if at is None:
        return GeneratedText("", EXTRACTIVE, usage, degraded)
    n, choice = places[at]
    listener.token(choice)
    return GeneratedText(choice, EXTRACTIVE, usage, degraded, cites=(n + 1,))


async def _by_reflective(
    services: Services, reflective: ReflectiveGenerator, request: DraftRequest, listener: Listener
) -> GeneratedText:
    """What a model writes that judges itself: it knows no markers, its passage is cited for it."""
    reply = await reflective.write(request.closed_question, one_passage(request.knowledge))
    answer = cited(without_markers(reply.text)) if request.knowledge else reply.text
    markup = _markup(request, services)
    answer = markup.whole(answer)
    if not answer.strip():
        raise GeneratorFailed("The language model gave an empty answer.")
    listener.token(answer)
    degraded = (*cut_short(reply.finish_reason), *markup.degraded)
    return GeneratedText(answer, reflective.name, reply.usage, degraded, reply.judgement)


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
        sentence = with_closed_code(text[start:end])
        is_list_number = sentence != text and _LIST_NUMBER.fullmatch(sentence)
        has_words = any(map(str.isalnum, prose[start:end])) and not is_list_number
        pieces += [text[at:start], with_marker(sentence, 1) if has_words else sentence]
        at = end
    return "".join([*pieces, text[at:]])
