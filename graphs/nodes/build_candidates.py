"""Gather what is drafted from: one candidate a passage, or CRAG's knowledge as candidates."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.generation.repack import Repack, repacked
from graphs.grading.actions import relevant
from graphs.grading.strips import join, strips_of
from graphs.nodes.generate import internal_knowledge
from graphs.ports import Services
from graphs.state import Context, Reflecting, State, tunables
from graphs.types import Action, Draft, Strip


def knowledge_apart(strips: Sequence[Strip], most: int, budget_tokens: int) -> list[list[Strip]]:
    """The kept strips of each document, best document first."""
    documents: dict[str, list[Strip]] = {}
    for strip in sorted((s for s in strips if s.kept), key=lambda s: (-s.score, s.position)):
        documents.setdefault(strip.document_id, []).append(strip)
    in_order = [sorted(found, key=lambda strip: strip.position) for found in documents.values()]
    return [join(found, [], budget_tokens) for found in in_order[:most]]


def knowledge_joined(
    internal: Sequence[Strip], external: Sequence[Strip], action: Action | None, context: Context
) -> list[list[Strip]]:
    """What `crag` would answer from; under Ambiguous also each origin's own, if so asked."""
    budget = context.evidence_tokens
    joined = join(internal, external, budget)
    if action != "ambiguous" or context.ambiguous_candidates == "joined":
        return [joined] if joined else []
    each = [join(strips, [], budget) for strips in (internal, external)]
    return [*each, joined] if all(each) else [joined]


async def gather_passages(
    state: State, runtime: Runtime[Context], *, services: Services
) -> Reflecting:
    """self_rag: the relevant passages and web pages, each a candidate of its own."""
    context, documents = tunables(runtime), state.get("documents", [])
    bounds = context.thresholds(services.evaluator.thresholds)
    kept = {p.id for p in relevant(documents, bounds, is_graded=state.get("is_graded", False))}
    internal = [
        replace(strip, kept=strip.document_id in kept) for strip in strips_of(documents, "passage")
    ]
    found = knowledge_apart(
        [*internal, *state.get("web_strips", [])], context.max_drafts, context.evidence_tokens
    )
    return {"internal_strips": internal, "candidates": _blank(found, context.repack)}


async def gather(state: State, runtime: Runtime[Context]) -> Reflecting:
    """self_crag: the knowledge that CRAG corrected; whole passages where nothing graded them."""
    context = tunables(runtime)
    internal = internal_knowledge(state, context.top_strips)
    found = knowledge_joined(internal, state.get("web_strips", []), state.get("action"), context)
    return {"internal_strips": internal, "candidates": _blank(found, context.repack)}


def _blank(found: Sequence[Sequence[Strip]], order: Repack) -> list[Draft]:
    """A candidate each; knowledge alike would be drafted from by the same call."""
    apart: dict[tuple[tuple[str, str, str], ...], Sequence[Strip]] = {}
    for strips in (repacked(each, order) for each in found):
        apart.setdefault(tuple((s.title, s.source, s.text) for s in strips), strips)
    filled = [strips for strips in apart.values() if strips]
    return [Draft("", tuple(strips), n) for n, strips in enumerate(filled, start=1)]
