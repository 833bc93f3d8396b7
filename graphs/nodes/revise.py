"""Revise the rejected draft in the light of the criticism."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.critics.extractive_revision import requoted, strips_for, unused
from graphs.errors import EvaluatorFailed, RetrieverFailed
from graphs.generation.answer import EXTRACTIVE, NOBODY, Asked, Listener, Written, revise_from
from graphs.grading.strips import strips_of
from graphs.nodes.generate import asked_of, streamed
from graphs.ports import Services
from graphs.reflection.budget import is_spent, writes_by_model
from graphs.reflection.scores import plain
from graphs.state import Context, Reflecting, State, tunables
from graphs.text.citations import without_markers
from graphs.types import Degraded, Draft, Judgement, Passage, Strip, Usage


async def revise(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The next round's draft, streamed; what was streamed before it is retracted.

    Strips that were left out may come in for the parts found open. Reflection ends, with what was
    best so far, where nothing new comes of it: a wording seen before, or a part that fails; and
    where the criticism took the last call. Of a closed set no sentence is quoted.
    """
    draft, rounds, context = state["draft"], state["critique"], tunables(runtime)
    if is_spent(state.get("spent", Usage()) + state.get("usage", Usage()), context):
        return {"has_ended": True, "stopped_by": "budget"}
    if context.choices and not writes_by_model(services):
        return {"has_ended": True, "stopped_by": "unchanged"}
    listener = _taking_back(runtime, len(rounds), rounds[-1].criticism)
    try:
        found = await _found_for(_open_parts(draft), state, context, services)
        revision, written = await _revised(state, found, context, services, listener)
    except (EvaluatorFailed, RetrieverFailed) as error:
        failed = Degraded(error.component, str(error))
        return {"has_ended": True, "stopped_by": "unchanged", "degraded": [failed]}
    changed: Reflecting = {"usage": written.usage, "degraded": list(written.degraded)}
    if plain(written.answer) in {"", *state.get("seen", [])}:
        return {**changed, "has_ended": True, "stopped_by": "unchanged"}
    given = {strip.id: strip for strip in revision.knowledge}
    grades = {strip.document_id: strip.score for strip in revision.knowledge}
    came_in = [replace(page, score=grades[page.id]) for page in found if page.id in grades]
    return {
        **changed,
        "draft": replace(revision, n=draft.n, generator=written.generator),
        "documents": sorted(
            [*state.get("documents", []), *came_in],
            key=lambda document: -document.score,
        ),
        "internal_strips": _with_kept(
            [*state.get("internal_strips", []), *strips_of(came_in, "passage")], given
        ),
        "web_strips": _with_kept(state.get("web_strips", []), given),
    }


def _open_parts(draft: Draft) -> tuple[str, ...]:
    return draft.judgement.uncovered if draft.judgement else ()


async def _found_for(
    parts: Sequence[str], state: State, context: Context, services: Services
) -> list[Passage]:
    """Passages that the open parts find on their own, beyond those the question found.

    Not where the run retrieves nothing, nor where all local documents were found wanting.
    """
    if state.get("action") == "incorrect":
        return []
    known = {passage.id for passage in state.get("documents", [])}
    found: dict[str, Passage] = {}
    for part in parts:
        passages = await services.retriever.retrieve(part, context.retrieve_k, context.searching())
        for passage in passages:
            if passage.id not in known:
                found.setdefault(passage.id, replace(passage, score=0.0))
    return list(found.values())


async def _revised(
    state: State,
    found: Sequence[Passage],
    context: Context,
    services: Services,
    listener: Listener,
) -> tuple[Draft, Written]:
    """The new draft, by the language model if there is one, else of sentences quoted anew."""
    draft = state["draft"]
    judgement = draft.judgement or Judgement()
    bounds = context.thresholds(services.evaluator.thresholds)
    strips = [*state.get("internal_strips", []), *state.get("web_strips", [])]
    added, usage = await strips_for(
        judgement.uncovered,
        unused(draft, [*strips, *strips_of(found, "passage")]),
        services.evaluator,
        max(bounds.strip_floor, bounds.lower),
    )
    if not writes_by_model(services):
        revision, more = await requoted(draft, judgement, added, services.evaluator)
        if plain(revision.answer) not in {"", *state.get("seen", [])}:
            listener.tell(revision.answer)
        return revision, Written(revision.answer, EXTRACTIVE, usage + more)
    knowledge = [*draft.knowledge, *added]
    asked = asked_of(state, knowledge, context, services)
    criticism = state["critique"][-1].criticism
    written = await _by_model(asked, draft, criticism, services, listener)
    revision = Draft(written.answer, tuple(knowledge), judgement=written.judgement)
    return revision, replace(written, usage=written.usage + usage)


async def _by_model(
    asked: Asked, draft: Draft, criticism: str, services: Services, listener: Listener
) -> Written:
    """What the model writes; of a closed set it is told once it is known to be one of them."""
    if not asked.choices:
        return await revise_from(asked, draft, criticism, services, listener)
    written = await revise_from(asked, draft, criticism, services, NOBODY)
    if plain(without_markers(written.answer)) not in map(plain, asked.choices):
        return replace(written, answer="")
    listener.tell(written.answer)
    return written


def _taking_back(runtime: Runtime[Context], round_: int, why: str) -> Listener:
    """Tells the round's draft; before its first piece the round before is retracted."""
    now, before = streamed(runtime, round_), streamed(runtime, round_ - 1)
    has_begun = False

    def tell(text: str) -> None:
        nonlocal has_begun
        if not has_begun:
            before.retract(why)
            has_begun = True
        now.tell(text)

    return Listener(tell=tell, retract=now.retract)


def _with_kept(strips: Sequence[Strip], given: Mapping[str, Strip]) -> list[Strip]:
    """Those that came in late are kept, with the score they came in by."""
    return [
        replace(s, kept=True, score=given[s.id].score) if s.id in given and not s.kept else s
        for s in strips
    ]
