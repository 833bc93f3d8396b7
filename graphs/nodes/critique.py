"""Critique the draft at hand: judge it, keep the best one, and criticise what was rejected."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from langgraph.runtime import Runtime

from graphs.critics.evaluator import criticism_of
from graphs.errors import CriticFailed
from graphs.nodes.prepare import plan_of
from graphs.ports import Services
from graphs.reflection.scores import accepted, answered, score_of
from graphs.state import Context, State, effective_question, options_of, total_usage
from graphs.text.inert_markup import inert
from graphs.text.sentences import plain
from graphs.types import Critique, Degraded, Draft, Judgement, Plan, StoppedBy, Usage


async def critique(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """One round's entry and, while reflection goes on, the best draft so far as the answer.

    Round 0 judges the draft that was given, unless it came judged. A critic that fails ends the
    loop with the best draft; a draft quoted because calls ran out ends it by the budget.
    """
    context, draft = options_of(runtime), state["draft"]
    result = Judgements([], Usage(), plan_of(state, context, services))
    judgement, usage = draft.judgement, Usage()
    try:
        if judgement is None:
            question = effective_question(state)
            result = await judged(question, [draft], result.plan, context, services)
            (judgement,), usage = result.judgements, result.usage
        if judgement == Judgement():
            raise CriticFailed("The critic could judge nothing of the draft.")
    except CriticFailed as error:
        return {
            "has_ended": True,
            "stopped_by": draft.stopped_by,
            "degraded": [*result.degraded, error.degraded],
            "usage": usage + error.usage,
        }
    rounds = [*state.get("critique", []), _entry(state, judgement, result.plan, context)]
    draft = replace(draft, judgement=judgement, critique_score=rounds[-1].score)
    spent = total_usage(state) + usage
    stopped_by = "budget" if draft.budget_exhausted else end_of(rounds, spent, context)
    return {
        **best_update(state.get("best"), draft, context, is_accepted=rounds[-1].accepted),
        "draft": draft,
        "seen": [*state.get("seen", []), plain(draft.answer)],
        "critique": rounds,
        "stopped_by": stopped_by or "answered",
        "has_ended": stopped_by is not None,
        "plan": result.plan,
        "degraded": list(result.degraded),
        "usage": usage,
    }


async def criticise(state: State, *, services: Services) -> State:
    """The critic's words in the last round's entry; its judgement in words where it has none."""
    draft, rounds = state["draft"], list(state["critique"])
    if plan := state.get("plan"):
        services = services.judging(plan)
    try:
        text, usage = await services.critic.criticise(
            effective_question(state), draft, draft.judgement or Judgement()
        )
    except CriticFailed as error:
        return {"degraded": [error.degraded], "usage": error.usage}
    rounds[-1] = replace(rounds[-1], criticism=inert(text))
    return {"critique": rounds, "usage": usage}


def end_of(rounds: list[Critique], spent: Usage, context: Context) -> StoppedBy | None:
    """Why no revision follows this round, or None where one does."""
    if rounds[-1].accepted:
        return "accepted"
    if context.is_spent(spent):
        return "budget"
    return "max_critic" if len(rounds) > context.max_critic else None


def best_update(best: Draft | None, draft: Draft, context: Context, *, is_accepted: bool) -> State:
    """The best draft is the answer, not the last; an accepted one is the best."""
    if best is not None and best.critique_score >= draft.critique_score and not is_accepted:
        return {"best": best}
    return {**answered(draft, context), "best": draft}


def _entry(state: State, judgement: Judgement, plan: Plan, context: Context) -> Critique:
    is_accepted = accepted(judgement, plan.bars)
    question = effective_question(state)
    return Critique(
        round=len(state.get("critique", [])),
        relevance=judgement.relevance,
        support=judgement.support,
        utility=judgement.utility,
        score=score_of(judgement, context),
        criticism="" if is_accepted else inert(criticism_of(question, judgement)),
        accepted=is_accepted,
    )


@dataclass(frozen=True, slots=True)
class Judgements:
    """One judgement a draft, in order; `plan` is the run's from now on."""

    judgements: Sequence[Judgement]
    usage: Usage
    plan: Plan
    degraded: tuple[Degraded, ...] = ()


async def judged(
    question: str, drafts: Sequence[Draft], plan: Plan, context: Context, services: Services
) -> Judgements:
    """Raises CriticFailed where nobody could judge."""
    services = services.judging(plan)
    try:
        judgements, usage = await services.critic.judge(question, drafts)
    except CriticFailed as error:
        if (other := services.critic_stand_in) is None:
            raise
        plan = replace(plan, critic_failed=True, bars=context.bars(other.bars))
        try:
            again = await judged(question, drafts, plan, context, services)
        except CriticFailed as second:
            second.usage += error.usage
            raise
        degraded = (error.judged_by(other.name), *again.degraded)
        return replace(again, usage=again.usage + error.usage, degraded=degraded)
    return Judgements(judgements, usage, plan)


async def judged_in_part(
    question: str,
    drafts: Sequence[Draft],
    plan: Plan,
    context: Context,
    services: Services,
    *,
    called: str = "drafts",
) -> Judgements:
    """An empty judgement for each draft that the critic fails to judge, and `degraded` says so."""
    if not drafts:
        return Judgements([], Usage(), plan)
    try:
        result = await judged(question, drafts, plan, context, services)
    except CriticFailed as error:
        return Judgements([Judgement()] * len(drafts), error.usage, plan, (error.degraded,))
    if unjudged := result.judgements.count(Judgement()):
        reason = f"{unjudged} of {len(drafts)} {called} were not judged."
        return replace(result, degraded=(*result.degraded, Degraded("critic", reason)))
    return result
