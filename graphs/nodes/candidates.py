"""Candidates: build their knowledge, draft an answer from each, judge the drafts, select one."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.generation.answer import NO_LISTENER, generate_answer, request_of, streamed
from graphs.generation.compression import by_document, compress_knowledge
from graphs.grading.actions import relevant
from graphs.grading.strips import internal_knowledge, join, repacked, strips_of
from graphs.nodes.critique import judged_in_part
from graphs.nodes.prepare import plan_of
from graphs.options import Repack
from graphs.ports import Services
from graphs.reflection.scores import score_of, selected
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Action, Draft, Judgement, Plan, Strip, Usage


async def build_passage_candidates(
    state: State, runtime: Runtime[Context], *, services: Services
) -> State:
    """self_rag: the relevant passages and web pages, each a candidate of its own."""
    context, documents = options_of(runtime), state.get("documents", [])
    plan = plan_of(state, context, services)
    ids = {passage.id for passage in relevant(documents, plan.thresholds)}
    internal = [
        replace(strip, kept=strip.document_id in ids) for strip in strips_of(documents, "passage")
    ]
    apart = knowledge_apart(
        [*internal, *state.get("web_strips", [])], context.max_drafts, context.evidence_tokens
    )
    return await _candidates(
        apart, internal, state, plan, context, services, share_a_draft=plan.drafts_segments
    )


async def build_candidates(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """self_crag: the knowledge that CRAG corrected; whole passages where nothing graded them."""
    context = options_of(runtime)
    internal = internal_knowledge(state, context.top_strips)
    web_strips, action = state.get("web_strips", []), state.get("action")
    joined = knowledge_joined(internal, web_strips, action, context)
    plan = plan_of(state, context, services)
    return await _candidates(joined, internal, state, plan, context, services)


def knowledge_apart(strips: Sequence[Strip], most: int, budget_tokens: int) -> list[list[Strip]]:
    """The kept strips of each document, best document first."""
    best_first = sorted((s for s in strips if s.kept), key=lambda s: (-s.score, s.position))
    in_order = [sorted(group, key=lambda s: s.position) for group in by_document(best_first)]
    return [join(group, [], budget_tokens) for group in in_order[:most]]


def knowledge_joined(
    internal: Sequence[Strip], external: Sequence[Strip], action: Action | None, context: Context
) -> list[list[Strip]]:
    """The joined knowledge; under Ambiguous also each origin's own, if the run asks for it."""
    budget = context.evidence_tokens
    joined = join(internal, external, budget)
    if action != "ambiguous" or context.ablation.ambiguous_candidates == "joined":
        return [joined] if joined else []
    each = [join(strips, [], budget) for strips in (internal, external)]
    return [*each, joined] if all(each) else [joined]


async def _candidates(
    knowledge: Sequence[Sequence[Strip]],
    internal: list[Strip],
    state: State,
    plan: Plan,
    context: Context,
    services: Services,
    *,
    share_a_draft: bool = False,
) -> State:
    """A candidate each, compressed on request; no more than there are calls to draft from them.

    Those that `share_a_draft`, a long answer, need no call each.
    """
    spent, distinct = state.get("usage", Usage()), _distinct(knowledge, context.repack)
    spare = 0 if context.is_spent(spent) else context.calls_left(spent) - len(distinct)
    questions = [effective_question(state), *plan.subquestions]
    result = await compress_knowledge(questions, distinct, context, services, spare)
    spent += result.usage
    filled = [strips for strips in result.knowledge if strips]
    if services.writes_by_model and not share_a_draft:
        filled = filled[: context.calls_left(spent)]
    return {
        "internal_strips": internal,
        "candidates": [Draft("", tuple(strips), n) for n, strips in enumerate(filled, start=1)],
        **result.update,
        "spent": spent,
    }


def _distinct(knowledge: Sequence[Sequence[Strip]], order: Repack) -> list[Sequence[Strip]]:
    """Repacked, without repeats: knowledge alike would be drafted from by the same call."""
    apart: dict[tuple[tuple[str, str, str], ...], Sequence[Strip]] = {}
    for strips in (repacked(each, order) for each in knowledge):
        apart.setdefault(tuple((s.title, s.source, s.text) for s in strips), strips)
    return [strips for strips in apart.values() if strips]


async def draft(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The candidate with its answer, streamed only where it is the only one."""
    context, candidate = options_of(runtime), state["draft"]
    plan = plan_of(state, context, services)
    request = request_of(state, candidate.knowledge, plan, context)
    affordable = services.within_budget(state.get("usage", Usage()), context)
    is_only = len(state.get("candidates", [])) == 1
    written = await generate_answer(
        request, affordable, streamed(runtime) if is_only else NO_LISTENER
    )
    finished = replace(
        written.as_draft(candidate.knowledge, candidate.n),
        budget_exhausted=affordable is not services,
    )
    return {"drafts": [finished], "usage": written.usage, "degraded": list(written.degraded)}


async def judge(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The candidates with judgement and score, in their order; unjudged where the critic fails.

    A draft that came with its judgement is not judged again.
    """
    context = options_of(runtime)
    drafts = sorted((d for d in state.get("drafts", []) if d.answer), key=lambda d: d.n)
    waiting = [draft for draft in drafts if draft.judgement is None]
    plan, question = plan_of(state, context, services), effective_question(state)
    result = await judged_in_part(question, waiting, plan, context, services)
    pairs = zip(waiting, result.judgements, strict=True)
    by_n = {draft.n: judgement for draft, judgement in pairs if judgement != Judgement()}
    drafts = [replace(d, judgement=by_n.get(d.n, d.judgement)) for d in drafts]
    scored = [
        replace(draft, critique_score=score_of(draft.judgement, context))
        if draft.judgement
        else draft
        for draft in drafts
    ]
    return {
        "candidates": scored,
        "plan": result.plan,
        "usage": result.usage,
        "degraded": list(result.degraded),
    }


async def select_candidate(state: State, runtime: Runtime[Context]) -> State:
    """The chosen draft as the answer so far; told now if several were written side by side."""
    update = selected(state.get("candidates", []), options_of(runtime))
    if len(state.get("drafts", [])) != 1:  # a single draft was told as it was written
        streamed(runtime).token(update["answer"])
    return {**update, "spent": state.get("usage", Usage())}
