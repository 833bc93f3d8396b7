"""Knowledge refinement: decompose passages into strips, filter, recompose (CRAG 4.4)."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import as_judged, select, strips_of, with_scores
from graphs.ports import Services
from graphs.state import Answer, Context, State, asked, tunables
from graphs.types import Degraded


async def refine(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """The graded strips of the documents, the relevant ones kept.

    Under Correct the best strip is kept even where all fall below the floor. Without the
    evaluator whole passages stand in, with the grades they have.
    """
    context, documents = tunables(runtime), state.get("documents", [])
    if not context.refinement:
        whole = strips_of(documents, "passage")
        return {"internal_strips": [replace(strip, kept=True) for strip in whole]}
    strips = strips_of(documents, context.strip_mode)
    texts = [as_judged(strip, context.grade_titles) for strip in strips]
    floor = context.thresholds(services.evaluator.thresholds).strip_floor
    keep_best = state.get("action") == "correct"
    try:
        graded = await relevance_of(
            asked(state), texts, services.evaluator, by_parts=context.grade_parts
        )
    except EvaluatorFailed as error:
        whole = strips_of(documents, "passage")
        return {
            "internal_strips": select(whole, floor, context.top_strips, keep_best=keep_best),
            "degraded": [Degraded(error.component, str(error))],
        }
    selected = select(
        with_scores(strips, graded.best), floor, context.top_strips, keep_best=keep_best
    )
    changed: Answer = {
        "internal_strips": selected,
        "kept_below_floor": any(strip.kept and strip.score < floor for strip in selected),
        "usage": graded.usage,
    }
    if unscored := len(strips) - len(selected):
        changed["degraded"] = [Degraded("evaluator", f"{unscored} strips could not be graded.")]
    return changed
