"""Judge every draft by its reflection tokens (Self-RAG 3.3)."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import CriticFailed
from graphs.ports import Services
from graphs.reflection.scores import score_of
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded, Judgement, Usage


async def judge(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The candidates with judgement and score, in their order; unjudged where the critic fails.

    A draft that came with its judgement is not judged again.
    """
    context = options_of(runtime)
    drafts = sorted((d for d in state.get("drafts", []) if d.answer), key=lambda d: d.n)
    waiting = [draft for draft in drafts if draft.judgement is None]
    usage, degraded = Usage(), list[Degraded]()
    if waiting:
        try:
            judgements, usage = await services.critic.judge(effective_question(state), waiting)
        except CriticFailed as error:
            degraded = [error.degraded]
        else:
            pairs = zip(waiting, judgements, strict=True)
            judged = {draft.n: judgement for draft, judgement in pairs if judgement != Judgement()}
            drafts = [replace(d, judgement=judged.get(d.n, d.judgement)) for d in drafts]
            if unjudged := len(waiting) - len(judged):
                reason = f"{unjudged} of {len(waiting)} drafts were not judged."
                degraded = [Degraded("critic", reason)]
    scored = [
        replace(draft, critique_score=score_of(draft.judgement, context))
        if draft.judgement
        else draft
        for draft in drafts
    ]
    return {"candidates": scored, "usage": usage, "degraded": degraded}
