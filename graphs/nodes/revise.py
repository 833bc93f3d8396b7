"""Revise the answer: more knowledge, then a new draft by the model or of sentences quoted anew."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.critics.evaluator import COVERED
from graphs.errors import EvaluatorFailed
from graphs.generation.answer import (
    EXTRACTIVE,
    GeneratedText,
    Listener,
    answering_floor,
    request_of,
    revise_answer,
    streamed,
)
from graphs.generation.extractive import Sentence, candidate_sentences, compose
from graphs.grading.relevance import best_place, scores_of
from graphs.grading.strips import evaluator_text, strips_of
from graphs.nodes.prepare import plan_of
from graphs.nodes.search import retrieved
from graphs.ports import Evaluator, Services
from graphs.state import Context, State, options_of, total_usage
from graphs.text.citations import answer_sentences, cited_numbers, without_markers
from graphs.text.inert_markup import inert_draft
from graphs.text.sentences import plain
from graphs.types import Degraded, Draft, Judgement, Language, Passage, Strip, Usage

MAX_ADDED = 3
"""Strips added to a draft for one open part."""

MAX_SEARCHED = 100
"""Unused strips looked through for the open parts, best first."""


async def strips_for(
    parts: Sequence[str], pool: Sequence[Strip], evaluator: Evaluator, floor: float
) -> tuple[list[Strip], Usage]:
    """For each part the unused strips that answer it best, with that score; none below the floor.

    Raises EvaluatorFailed.
    """
    looked = sorted(pool, key=lambda strip: -strip.score)[:MAX_SEARCHED]
    texts = [evaluator_text(strip, with_title=True) for strip in looked]
    graded = await scores_of(parts, texts, evaluator)
    chosen: dict[str, Strip] = {}
    for grades in graded.by_question:
        known = [
            replace(strip, relevance=score, kept=True)
            for strip, score in zip(looked, grades, strict=True)
            if score is not None and score >= floor
        ]
        for strip in sorted(known, key=lambda strip: -strip.score)[:MAX_ADDED]:
            chosen.setdefault(strip.id, strip)
    return list(chosen.values()), graded.usage


async def revise_extractively(
    draft: Draft,
    judgement: Judgement,
    added: Sequence[Strip],
    evaluator: Evaluator,
    language: Language = "en",
) -> tuple[Draft, Usage]:
    """The draft without its weak sentences, with the best sentence for each open part.

    Parts that still have none are named. Raises EvaluatorFailed.
    """
    knowledge = [*draft.knowledge, *added]
    stays = [item for item in quoted_in(draft) if not is_weak(item, judgement)]
    quotable = [i for i in candidate_sentences(knowledge) if not is_weak(i, judgement)]
    texts = [item.text for item in quotable]
    graded = await scores_of(judgement.uncovered, texts, evaluator)
    comes, missing = [], list[str]()
    for part, grades in zip(judgement.uncovered, graded.by_question, strict=True):
        if (at := best_place(grades, COVERED)) is None:
            missing.append(part)
        else:
            comes.append(quotable[at])
    return recomposed([*stays, *comes], knowledge, missing, language), graded.usage


def unused(draft: Draft, pool: Sequence[Strip]) -> list[Strip]:
    """Strips that the draft does not have yet, by place or by text."""
    places = {strip.id for strip in draft.knowledge}
    texts = {plain(strip.text) for strip in draft.knowledge}
    return [strip for strip in pool if strip.id not in places and plain(strip.text) not in texts]


def quoted_in(draft: Draft) -> list[Sentence]:
    """The draft's cited sentences as they were quoted."""
    quoted, text, begins = [], draft.answer_body, None
    for start, end in answer_sentences(text):
        begins = start if begins is None else begins
        numbers = [n for n in cited_numbers(text[start:end]) if 1 <= n <= len(draft.knowledge)]
        if numbers:  # one marker closes the lines of a list, a table or code
            begins = begins if "\n" in text[begins:start] else start
            quoted.append(Sentence(numbers[0], without_markers(text[begins:end]).strip()))
            begins = None
    return quoted


def is_weak(item: Sentence, judgement: Judgement) -> bool:
    """Whether the critic calls it, or a sentence in it, weak."""
    lines = (item.text[start:end] for start, end in answer_sentences(item.text))
    return any(line in judgement.weak for line in (item.text, *lines))


def recomposed(
    chosen: Sequence[Sentence],
    knowledge: Sequence[Strip],
    missing: Sequence[str] = (),
    language: Language = "en",
) -> Draft:
    """The sentences as one answer, none twice, from that part of the knowledge which they cite."""
    once = list({plain(item.text): item for item in reversed(chosen)}.values())[::-1]
    numbers = list(dict.fromkeys(item.n for item in once))
    renumbered = [replace(item, n=numbers.index(item.n) + 1) for item in once]
    missing = missing if renumbered else ()
    answer = "".join(compose(renumbered, missing, language))
    return Draft(answer, tuple(knowledge[n - 1] for n in numbers), missing=tuple(missing))


async def revise(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The next round's draft, streamed; what was streamed before it is retracted.

    Strips that were left out may come in for the parts found open. Reflection ends, with what was
    best so far, where nothing new comes of it: a wording seen before, an evaluator that fails; and
    where the criticism took the last call. Of a closed set no sentence is quoted.
    """
    draft, rounds, context = state["draft"], state["critique"], options_of(runtime)
    if context.is_spent(total_usage(state)):
        return {"has_ended": True, "stopped_by": "budget"}
    if context.choices and not services.writes_by_model:
        return {"has_ended": True, "stopped_by": "unchanged"}
    listener = _retracting(runtime, len(rounds), rounds[-1].criticism)
    passages, failures = await _passages_for(_open_parts(draft), state, context, services)
    try:
        revision, written = await _revised(state, passages, context, services, listener)
    except EvaluatorFailed as error:
        return {
            "has_ended": True,
            "stopped_by": "unchanged",
            "degraded": [*failures, error.degraded],
            "usage": error.usage,
        }
    update: State = {"usage": written.usage, "degraded": [*failures, *written.degraded]}
    if plain(written.answer) in {"", *state.get("seen", [])}:
        return {**update, "has_ended": True, "stopped_by": "unchanged"}
    given = {strip.id: strip for strip in revision.knowledge}
    grades = {strip.document_id: strip.relevance for strip in revision.knowledge}
    came_in = [replace(page, relevance=grades[page.id]) for page in passages if page.id in grades]
    return {
        **update,
        "draft": replace(revision, n=draft.n, generator=written.generator),
        "documents": sorted(
            [*state.get("documents", []), *came_in], key=lambda document: -document.score
        ),
        "internal_strips": _with_kept(
            [*state.get("internal_strips", []), *strips_of(came_in, "passage")], given
        ),
        "web_strips": _with_kept(state.get("web_strips", []), given),
    }


def _open_parts(draft: Draft) -> tuple[str, ...]:
    return draft.judgement.uncovered if draft.judgement else ()


async def _passages_for(
    parts: Sequence[str], state: State, context: Context, services: Services
) -> tuple[list[Passage], list[Degraded]]:
    """Passages that the open parts find on their own, beyond those the question found.

    Not where all local documents were found wanting. Where the index fails, what it found all the
    same, and why.
    """
    if state.get("action") == "incorrect":
        return [], []
    known = {passage.id for passage in state.get("documents", [])}
    passages: dict[str, Passage] = {}
    degraded: dict[Degraded, None] = {}
    for part in parts:
        hits, failures = await retrieved(part, context.retrieve_k, state, context, services)
        degraded.update(dict.fromkeys(failures))
        for passage in hits:
            if passage.id not in known:
                passages.setdefault(passage.id, replace(passage, retrieval_score=0.0))
    return list(passages.values()), list(degraded)


async def _revised(
    state: State,
    passages: Sequence[Passage],
    context: Context,
    services: Services,
    listener: Listener,
) -> tuple[Draft, GeneratedText]:
    """The new draft, by the language model if there is one, else of sentences quoted anew."""
    draft, plan = state["draft"], plan_of(state, context, services)
    judgement = draft.judgement or Judgement()
    strips = [*state.get("internal_strips", []), *state.get("web_strips", [])]
    added, usage = await strips_for(
        judgement.uncovered,
        unused(draft, [*strips, *strips_of(passages, "passage")]),
        services.evaluator,
        answering_floor(plan),
    )
    if not services.writes_by_model:
        revision, more = await revise_extractively(
            draft, judgement, added, services.evaluator, plan.language
        )
        revision, degraded = inert_draft(revision, services.answer_links)
        if plain(revision.answer) not in {"", *state.get("seen", [])}:
            listener.token(revision.answer)
        return revision, GeneratedText(revision.answer, EXTRACTIVE, usage + more, degraded)
    knowledge = [*draft.knowledge, *added]
    request = request_of(state, knowledge, plan, context)
    criticism = state["critique"][-1].criticism
    written = await revise_answer(request, draft, criticism, services, listener)
    return written.as_draft(knowledge), replace(written, usage=written.usage + usage)


def _retracting(runtime: Runtime[Context], round_: int, why: str) -> Listener:
    """Tells the round's draft; before its first piece the round before is retracted."""
    now, before = streamed(runtime, round_), streamed(runtime, round_ - 1)
    has_begun = False

    def token(text: str) -> None:
        nonlocal has_begun
        if not has_begun:
            before.retract(why)
            has_begun = True
        now.token(text)

    return Listener(token=token, retract=now.retract)


def _with_kept(strips: Sequence[Strip], given: Mapping[str, Strip]) -> list[Strip]:
    """Those that came in late are kept, with the relevance they came in by."""
    return [
        replace(s, kept=True, relevance=given[s.id].relevance)
        if s.id in given and not s.kept
        else s
        for s in strips
    ]
