"""Critique the draft at hand: judge it, keep the best one, and say whether to go on."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.critics.evaluator import criticism_of
from graphs.critics.factory import critic_of
from graphs.errors import CriticFailed
from graphs.ports import Services
from graphs.reflection.budget import is_spent
from graphs.reflection.scores import accepted, plain, score_of
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.text.citations import citations_in
from graphs.types import Bars, Critique, Degraded, Draft, Judgement, StoppedBy, Usage


async def critique(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """One round's entry and, while reflection goes on, the best draft so far as the answer.

    Round 0 judges the draft that was given, unless it came judged. A critic that fails ends the
    loop with the best draft, and one quoted for want of calls is the budget's in any case.
    """
    context, draft, critic = tunables(runtime), state["draft"], critic_of(services)
    judgement, usage = draft.judgement, Usage()
    try:
        if judgement is None:
            (judgement,), usage = await critic.judge(asked(state), [draft])
        if judgement == Judgement():
            raise CriticFailed("The critic could judge nothing of the draft.")
    except CriticFailed as error:
        failed = Degraded(error.component, str(error))
        return {
            "has_ended": True,
            "stopped_by": draft.stopped_by,
            "degraded": [failed],
            "usage": usage,
        }
    rounds = [*state.get("critique", []), _entry(state, judgement, context, critic.bars)]
    draft = replace(draft, judgement=judgement, score=rounds[-1].score)
    spent = state.get("spent", Usage()) + state.get("usage", Usage()) + usage
    stopped_by = "budget" if draft.for_want_of_calls else end_of(rounds, spent, context)
    return {
        **kept(state.get("best"), draft, is_accepted=rounds[-1].accepted),
        "draft": draft,
        "seen": [*state.get("seen", []), plain(draft.answer)],
        "critique": rounds,
        "stopped_by": stopped_by or "answered",
        "has_ended": stopped_by is not None,
        "usage": usage,
    }


def end_of(rounds: list[Critique], spent: Usage, context: Context) -> StoppedBy | None:
    """Why no revision follows this round, or None where one does."""
    if rounds[-1].accepted:
        return "accepted"
    if is_spent(spent, context):
        return "budget"
    return "max_critic" if len(rounds) > context.max_critic else None


def kept(best: Draft | None, draft: Draft, *, is_accepted: bool) -> Reflecting:
    """The best draft is the answer, not the last; an accepted one is the best."""
    if best is not None and best.score >= draft.score and not is_accepted:
        return {"best": best}
    return {
        "best": draft,
        "answer": draft.answer,
        "citations": citations_in(draft.answer, draft.knowledge),
        "generator": draft.generator,
    }


def _entry(state: State, judgement: Judgement, context: Context, own: Bars) -> Critique:
    is_accepted = accepted(judgement, context.bars(own))
    return Critique(
        round=len(state.get("critique", [])),
        relevance=judgement.relevance,
        support=judgement.support,
        utility=judgement.utility,
        score=score_of(judgement, context),
        criticism="" if is_accepted else criticism_of(asked(state), judgement),
        accepted=is_accepted,
    )
