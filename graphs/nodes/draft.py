"""Draft an answer from one candidate's knowledge; drafts are written side by side."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.generation.answer import NOBODY, generate_answer, request_of, streamed
from graphs.grading.actions import action_of
from graphs.grading.plan import plan_of
from graphs.ports import Services
from graphs.reflection.budget import within_budget
from graphs.state import Context, State, options_of
from graphs.types import Usage


async def draft(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The candidate with its answer, streamed only where it is the only one.

    Something is quoted at any rate from knowledge that, graded, would make the action Correct.
    """
    context, candidate = options_of(runtime), state["draft"]
    plan = plan_of(state, context, services)
    request = request_of(state, candidate.knowledge, plan, context)
    relevance = [s.relevance for s in candidate.knowledge if s.relevance is not None]
    if state.get("action") is None and relevance:
        action = action_of(relevance, plan.thresholds.upper, plan.thresholds.lower)
        request = replace(request, keep_best=action == "correct")
    able = within_budget(state.get("usage", Usage()), context, services)
    is_only = len(state.get("candidates", [])) == 1
    written = await generate_answer(request, able, streamed(runtime) if is_only else NOBODY)
    finished = replace(
        candidate,
        answer=written.answer,
        generator=written.generator,
        judgement=written.judgement,
        budget_exhausted=able is not services,
    )
    return {"drafts": [finished], "usage": written.usage, "degraded": list(written.degraded)}
