"""Grade what was retrieved and choose the action (CRAG 4.3); refine it into strips (CRAG 4.4)."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.grading.actions import choose_action, searches_web, speculates
from graphs.grading.relevance import OnGraded, relevance_of, told_as_graded
from graphs.grading.strips import evaluator_text, select, strips_of, with_relevance
from graphs.nodes.prepare import plan_of
from graphs.nodes.web import web_query
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Degraded, Plan, Usage


async def grade(
    state: State, runtime: Runtime[Context], *, services: Services, acts: bool = True
) -> State:
    """The graded documents and, where the workflow `acts` on it, the action.

    No action, and `degraded`, where the evaluator fails; where a language model fails to grade, the
    evaluator grades the rest of the run. Where the run speculates, a search begins
    beside grading and is kept if the action wants it.
    """
    context, ahead = options_of(runtime), services.search_ahead
    plan = plan_of(state, context, services)
    graded = told_as_graded(runtime, "grade", state.get("documents", []), plan.thresholds.lower)
    if not acts:
        update = await grade_documents(state, plan, context, services, graded)
        spent = state.get("usage", Usage()) + update.get("usage", Usage())
        return {**update, "action": None, "spent": spent}
    if ahead is None or not speculates(context, plan, state.get("documents", [])):
        update = await grade_documents(state, plan, context, services, graded)
        return {**update, "speculative_search": None}
    with ahead.begin(web_query(state), context.web_pages) as ticket:
        update = await grade_documents(state, plan, context, services, graded)
        if ticket and searches_web(update["action"], plan):
            ahead.keep(ticket)
            return {**update, "speculative_search": ticket}
    if ticket:
        discarded = Usage(web_searches=1, discarded_searches=1)
        update["usage"] = update.get("usage", Usage()) + discarded
    return {**update, "speculative_search": None}


async def grade_documents(
    state: State, plan: Plan, context: Context, services: Services, graded: OnGraded | None = None
) -> State:
    """The documents by their relevance, best first, and the action they make."""
    services = services.judging(plan)
    passages, ablation = state.get("documents", []), context.ablation
    texts = [evaluator_text(passage, ablation.grade_titles) for passage in passages]
    questions = [effective_question(state), *plan.subquestions]
    try:
        relevance = (await relevance_of(questions, texts, services.evaluator, graded)).in_pool()
    except EvaluatorFailed as error:
        if (other := services.grader_stand_in) is None:
            return {"action": None, "degraded": [error.degraded], "usage": error.usage}
        plan = replace(plan, grader_failed=True, thresholds=context.thresholds(other.thresholds))
        again = await grade_documents(state, plan, context, services)
        return {
            **again,
            "plan": plan,
            "degraded": [error.judged_by(other.name), *again.get("degraded", [])],
            "usage": error.usage + again.get("usage", Usage()),
        }
    documents = sorted(with_relevance(passages, relevance), key=lambda it: -it.score)
    update: State = {
        "documents": documents,
        "grades": [list(row) for row in relevance.by_question],
        "action": choose_action(relevance.by_question, plan.thresholds, ablation),
        "usage": relevance.usage,
    }
    if unscored := len(passages) - len(documents):
        update["degraded"] = [Degraded("evaluator", f"{unscored} passages could not be graded.")]
    return update


async def refine(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The graded strips of the documents, the relevant ones kept.

    Under Correct the best strip is kept even where all fall below the floor. Without the
    evaluator whole passages stand in, with the relevance they have.
    """
    context, documents = options_of(runtime), state.get("documents", [])
    plan, whole = plan_of(state, context, services), strips_of(documents, "passage")
    services = services.judging(plan)
    if not context.ablation.refinement:
        return {"internal_strips": [replace(strip, kept=True) for strip in whole]}
    strips = strips_of(documents, context.strip_mode)
    texts = [evaluator_text(strip, context.ablation.grade_titles) for strip in strips]
    questions = [effective_question(state), *plan.subquestions]
    floor, keep_best = plan.thresholds.strip_floor, state.get("action") == "correct"
    on_graded = told_as_graded(runtime, "refine", strips, floor)
    try:
        graded = await relevance_of(questions, texts, services.evaluator, on_graded)
    except EvaluatorFailed as error:
        return {
            "internal_strips": select(whole, floor, context.top_strips, keep_best=keep_best),
            "degraded": [error.degraded],
            "usage": error.usage,
        }
    selected = select(
        with_relevance(strips, graded), floor, context.top_strips, keep_best=keep_best
    )
    update: State = {
        "internal_strips": selected,
        "kept_below_floor": any(strip.kept and strip.score < floor for strip in selected),
        "usage": graded.usage,
    }
    if unscored := len(strips) - len(selected):
        update["degraded"] = [Degraded("evaluator", f"{unscored} strips could not be graded.")]
    return update
