"""Revise the rejected draft in the light of the criticism."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.drafting import EXTRACTIVE, Listener, Written, revise_from
from graphs.errors import EvaluatorFailed
from graphs.nodes.generate import asked_of, streamed
from graphs.ports import Services
from graphs.reflection import plain
from graphs.requote import requoted, strips_for, unused
from graphs.state import Context, Reflecting, State, tunables
from graphs.types import Degraded, Draft, Judgement, Strip


async def revise(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The next round's draft, streamed; what was streamed before it is retracted.

    Strips that were left out may come in for the parts found open. Reflection ends, with what was
    best so far, where nothing new comes of it: a wording seen before, or a part that fails.
    """
    draft, rounds = state["draft"], state["critique"]
    listener = _taking_back(runtime, len(rounds), rounds[-1].criticism)
    try:
        revision, written = await _revised(state, tunables(runtime), services, listener)
    except EvaluatorFailed as error:
        failed = Degraded(error.component, str(error))
        return {"has_ended": True, "stopped_by": "unchanged", "degraded": [failed]}
    changed: Reflecting = {"usage": written.usage, "degraded": list(written.degraded)}
    if plain(written.answer) in {"", *state.get("seen", [])}:
        return {**changed, "has_ended": True, "stopped_by": "unchanged"}
    given = {strip.id for strip in revision.knowledge}
    return {
        **changed,
        "draft": replace(revision, n=draft.n, generator=written.generator),
        "internal_strips": _with_kept(state.get("internal_strips", []), given),
        "web_strips": _with_kept(state.get("web_strips", []), given),
    }


async def _revised(
    state: State, context: Context, services: Services, listener: Listener
) -> tuple[Draft, Written]:
    """The new draft, by the language model if there is one, else of sentences quoted anew."""
    draft = state["draft"]
    judgement = draft.judgement or Judgement()
    bounds = context.thresholds(services.evaluator.thresholds)
    pool = unused(draft, [*state.get("internal_strips", []), *state.get("web_strips", [])])
    added, usage = await strips_for(
        judgement.uncovered, pool, services.evaluator, max(bounds.strip_floor, bounds.lower)
    )
    if services.chat is None and services.reflective is None:
        revision, more = await requoted(draft, judgement, added, services.evaluator)
        if plain(revision.answer) not in state.get("seen", []):
            listener.tell(revision.answer)
        return revision, Written(revision.answer, EXTRACTIVE, usage + more)
    knowledge = [*draft.knowledge, *added]
    asked = asked_of(state, knowledge, context, services)
    criticism = state["critique"][-1].criticism
    written = await revise_from(asked, draft, criticism, services, listener)
    revision = Draft(written.answer, tuple(knowledge), judgement=written.judgement)
    return revision, replace(written, usage=written.usage + usage)


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


def _with_kept(strips: Sequence[Strip], given: set[str]) -> list[Strip]:
    return [replace(s, kept=True) if s.id in given and not s.kept else s for s in strips]
