"""Knowledge refinement: decompose passages into strips, filter, recompose (CRAG 4.4)."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import as_judged, select, strips_of, with_relevance
from graphs.nodes.prepare import plan_of
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded


async def refine(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The graded strips of the documents, the relevant ones kept.

    Under Correct the best strip is kept even where all fall below the floor. Without the
    evaluator whole passages stand in, with the relevance they have.
    """
    context, documents = options_of(runtime), state.get("documents", [])
    plan, whole = plan_of(state, context, services), strips_of(documents, "passage")
    if not context.ablation.refinement:
        return {"internal_strips": [replace(strip, kept=True) for strip in whole]}
    strips = strips_of(documents, context.strip_mode)
    texts = [as_judged(strip, context.ablation.grade_titles) for strip in strips]
    questions = [effective_question(state), *plan.subquestions]
    floor, keep_best = plan.thresholds.strip_floor, state.get("action") == "correct"
    try:
        graded = await relevance_of(questions, texts, services.evaluator)
    except EvaluatorFailed as error:
        return {
            "internal_strips": select(whole, floor, context.top_strips, keep_best=keep_best),
            "degraded": [error.degraded],
        }
    selected = select(
        with_relevance(strips, graded.best), floor, context.top_strips, keep_best=keep_best
    )
    update: State = {
        "internal_strips": selected,
        "kept_below_floor": any(strip.kept and strip.score < floor for strip in selected),
        "usage": graded.usage,
    }
    if unscored := len(strips) - len(selected):
        update["degraded"] = [Degraded("evaluator", f"{unscored} strips could not be graded.")]
    return update
