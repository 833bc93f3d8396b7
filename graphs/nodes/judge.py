"""Judge every draft by its reflection tokens (Self-RAG 3.3)."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.critics.factory import critic_of
from graphs.errors import CriticFailed
from graphs.ports import Services
from graphs.reflection.scores import score_of
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.types import Degraded, Judgement, Usage


async def judge(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The candidates with judgement and score, in their order; unjudged where the critic fails.

    A draft that came with its judgement is not judged again.
    """
    context = tunables(runtime)
    drafts = sorted((d for d in state.get("drafts", []) if d.answer), key=lambda d: d.n)
    waiting = [draft for draft in drafts if draft.judgement is None]
    usage, degraded = Usage(), list[Degraded]()
    try:
        found, usage = (
            await critic_of(services).judge(asked(state), waiting) if waiting else ((), usage)
        )
    except CriticFailed as error:
        degraded = [Degraded(error.component, str(error))]
    else:
        told = zip(waiting, found, strict=True)
        judged = {draft.n: judgement for draft, judgement in told if judgement != Judgement()}
        drafts = [replace(d, judgement=judged.get(d.n, d.judgement)) for d in drafts]
        if unjudged := len(waiting) - len(judged):
            degraded = [Degraded("critic", f"{unjudged} of {len(found)} drafts were not judged.")]
    scored = [
        replace(draft, score=score_of(draft.judgement, context)) if draft.judgement else draft
        for draft in drafts
    ]
    return {"candidates": scored, "usage": usage, "degraded": degraded}
