"""Select external knowledge: web paragraphs graded like local strips (CRAG 4.5)."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import paragraphs_of, with_scores
from graphs.grading.strips import select as select_strips
from graphs.ports import Services
from graphs.state import Answer, Context, State, asked, tunables
from graphs.types import Degraded, Strip

# Five long pages hold thousands of paragraphs; the answer is in the first of each.
MOST_PARAGRAPHS = 200


def openings(strips: Sequence[Strip]) -> list[Strip]:
    """At most 200 paragraphs in document order, an equal share of every page's first."""
    first = sorted(strips, key=lambda strip: strip.position[::-1])[:MOST_PARAGRAPHS]
    return sorted(first, key=lambda strip: strip.position)


async def select(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """The graded web paragraphs, the relevant ones kept.

    They are graded against the original question. Web text that cannot be graded is not used.
    """
    context = tunables(runtime)
    strips = openings(paragraphs_of(state.get("web_pages", [])))
    if not context.selection:
        return {"web_strips": [replace(strip, kept=True) for strip in strips]}
    texts = [strip.text for strip in strips]
    try:
        graded = await relevance_of(
            asked(state), texts, services.evaluator, by_parts=context.grade_parts
        )
    except EvaluatorFailed as error:
        return {"web_strips": strips, "degraded": [Degraded(error.component, str(error))]}
    floor = context.thresholds(services.evaluator.thresholds).strip_floor
    selected = select_strips(with_scores(strips, graded.best), floor, context.top_strips)
    changed: Answer = {"web_strips": selected, "usage": graded.usage}
    if unscored := len(strips) - len(selected):
        told = f"{unscored} web paragraphs could not be graded."
        changed["degraded"] = [Degraded("evaluator", told)]
    return changed
