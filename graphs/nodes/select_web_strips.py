"""Select external knowledge: web paragraphs graded like local strips (CRAG 4.5)."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.grading.plan import plan_of
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import paragraphs_of, select, with_relevance
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded, Strip

MAX_PARAGRAPHS = 200
"""Five long pages hold thousands of paragraphs; the answer is in the first of each."""


async def select_web_strips(
    state: State, runtime: Runtime[Context], *, services: Services
) -> State:
    """The graded web paragraphs, the relevant ones kept.

    They are graded against the original question. Web text that cannot be graded is not used.
    """
    context = options_of(runtime)
    plan = plan_of(state, context, services)
    strips = openings(paragraphs_of(state.get("web_pages", [])))
    if not context.ablation.selection:
        return {"web_strips": [replace(strip, kept=True) for strip in strips]}
    questions = [effective_question(state), *plan.subquestions]
    try:
        graded = await relevance_of(questions, [s.text for s in strips], services.evaluator)
    except EvaluatorFailed as error:
        return {"web_strips": strips, "degraded": [error.degraded]}
    selected = select(
        with_relevance(strips, graded.best), plan.thresholds.strip_floor, context.top_strips
    )
    update: State = {"web_strips": selected, "usage": graded.usage}
    if unscored := len(strips) - len(selected):
        reason = f"{unscored} web paragraphs could not be graded."
        update["degraded"] = [Degraded("evaluator", reason)]
    return update


def openings(strips: Sequence[Strip]) -> list[Strip]:
    """At most 200 paragraphs in document order, an equal share of every page's first."""
    first = sorted(strips, key=lambda strip: strip.position[::-1])[:MAX_PARAGRAPHS]
    return sorted(first, key=lambda strip: strip.position)
