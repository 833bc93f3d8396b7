"""Drafts judged by the run's critic, or by the evaluator where a language model fails to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphs.errors import CriticFailed
from graphs.options import Context
from graphs.ports import Services
from graphs.types import Degraded, Draft, Judgement, Plan, Usage


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
