"""Build the candidates that are drafted from: one a passage, or CRAG's knowledge."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.generation.compression import compressed
from graphs.generation.knowledge import internal_knowledge, repacked
from graphs.grading.actions import relevant
from graphs.grading.plan import plan_of
from graphs.grading.strips import join, strips_of
from graphs.options import Repack
from graphs.ports import Services
from graphs.reflection.budget import calls_left, is_spent
from graphs.state import Context, State, effective_question, options_of
from graphs.types import Action, Draft, Plan, Strip, Usage


async def build_passage_candidates(
    state: State, runtime: Runtime[Context], *, services: Services
) -> State:
    """self_rag: the relevant passages and web pages, each a candidate of its own."""
    context, documents = options_of(runtime), state.get("documents", [])
    plan = plan_of(state, context, services)
    kept = {passage.id for passage in relevant(documents, plan.thresholds)}
    internal = [
        replace(strip, kept=strip.document_id in kept) for strip in strips_of(documents, "passage")
    ]
    apart = knowledge_apart(
        [*internal, *state.get("web_strips", [])], context.max_drafts, context.evidence_tokens
    )
    return await _candidates(apart, internal, state, plan, context, services)


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
    documents: dict[str, list[Strip]] = {}
    for strip in sorted((s for s in strips if s.kept), key=lambda s: (-s.score, s.position)):
        documents.setdefault(strip.document_id, []).append(strip)
    in_order = [sorted(group, key=lambda strip: strip.position) for group in documents.values()]
    return [join(group, [], budget_tokens) for group in in_order[:most]]


def knowledge_joined(
    internal: Sequence[Strip], external: Sequence[Strip], action: Action | None, context: Context
) -> list[list[Strip]]:
    """What `crag` would answer from; under Ambiguous also each origin's own, if so asked."""
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
) -> State:
    """A candidate each, no more than there are calls to draft from them; compressed if so asked."""
    spent, distinct = state.get("usage", Usage()), _distinct(knowledge, context.repack)
    spare = 0 if is_spent(spent, context) else calls_left(spent, context) - len(distinct)
    questions = [effective_question(state), *plan.subquestions]
    result = await compressed(questions, distinct, context, services, spare)
    spent += result.usage
    filled = [strips for strips in result.knowledge if strips]
    if services.writes_by_model and not plan.drafts_segments:
        filled = filled[: calls_left(spent, context)]
    update: State = {
        "internal_strips": internal,
        "candidates": [Draft("", tuple(strips), n) for n, strips in enumerate(filled, start=1)],
        "usage": result.usage,
        "degraded": list(result.degraded),
        "spent": spent,
    }
    if result.compression is not None:
        update["compression"] = result.compression
    return update


def _distinct(knowledge: Sequence[Sequence[Strip]], order: Repack) -> list[Sequence[Strip]]:
    """Repacked, without repeats: knowledge alike would be drafted from by the same call."""
    apart: dict[tuple[tuple[str, str, str], ...], Sequence[Strip]] = {}
    for strips in (repacked(each, order) for each in knowledge):
        apart.setdefault(tuple((s.title, s.source, s.text) for s in strips), strips)
    return [strips for strips in apart.values() if strips]
