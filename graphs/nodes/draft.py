"""Draft an answer from one candidate's knowledge; drafts are written side by side."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.generation.answer import NOBODY, draft_from
from graphs.grading.actions import action_of
from graphs.nodes.generate import asked_of, streamed
from graphs.ports import Services
from graphs.reflection.budget import within_budget
from graphs.state import Context, Reflecting, State, tunables


async def draft(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The candidate with its answer, streamed only where it is the only one.

    Something is quoted at any rate from knowledge that, graded, would make the action Correct.
    """
    context, candidate = tunables(runtime), state["draft"]
    asked = asked_of(state, list(candidate.knowledge), context, services)
    if state.get("action") is None and asked.graded:
        bounds = context.thresholds(services.evaluator.thresholds)
        scores = [strip.score for strip in candidate.knowledge]
        is_correct = action_of(scores, bounds.upper, bounds.lower) == "correct"
        asked = replace(asked, keep_best=is_correct)
    is_only = len(state.get("candidates", [])) == 1
    able = within_budget(state, context, services)
    written = await draft_from(asked, able, streamed(runtime) if is_only else NOBODY)
    finished = replace(
        candidate,
        answer=written.answer,
        generator=written.generator,
        judgement=written.judgement,
        for_want_of_calls=able is not services,
    )
    return {
        "drafts": [finished],
        "usage": written.usage,
        "degraded": list(written.degraded),
    }
