"""Draft a long answer by segments: extend the beam, prune it, retrieve more (Self-RAG 3.3)."""

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.generation.answer import request_of
from graphs.grading.actions import relevant
from graphs.grading.strips import strips_of
from graphs.nodes.critique import judged_in_part
from graphs.nodes.grade import grade_documents
from graphs.nodes.prepare import plan_of
from graphs.nodes.search import retrieved
from graphs.ports import Services
from graphs.reflection.beam import cited_segment, drafts_of, next_beam, segment_from
from graphs.reflection.scores import score_of
from graphs.state import Context, State, effective_question, options_of, total_usage
from graphs.text.inert_markup import inert_draft
from graphs.types import Degraded, Draft, Extension, Judgement, Passage, Path, Plan, Strip, Usage


async def extend(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """Every segment that could come next, not judged yet, side by side.

    Each unfinished path goes on from each of its passages; the first from every candidate.
    """
    context, usage = options_of(runtime), total_usage(state)
    affordable = services.within_budget(usage, context)
    paths = state.get("paths") or [
        Path(tuple(_best(draft.knowledge) for draft in state.get("candidates", [])))
    ]
    request = request_of(state, [], plan_of(state, context, services), context)
    places = [
        (n, path, passage)
        for n, path in enumerate(paths)
        if not path.is_finished
        for passage in path.passages
    ]
    if affordable.writes_by_model:
        places = places[: context.calls_left(usage)]
    continuations = await gather_with_concurrency(
        None,
        *(segment_from(request, passage, path.text, affordable) for _, path, passage in places),
    )
    exhausted = affordable is not services
    return {
        "paths": paths,
        "extensions": [
            Extension(n, replace(each.segment, budget_exhausted=exhausted))
            for (n, _, _), each in zip(places, continuations, strict=True)
            if each.segment is not None
        ],
        "usage": sum((each.usage for each in continuations), Usage()),
        "degraded": list(dict.fromkeys(entry for each in continuations for entry in each.degraded)),
    }


async def prune(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The new segments judged, the best `beam_width` paths, and what they come to as drafts.

    Where the critic fails the passages' own scores decide, and what is said stays unjudged.
    """
    context = options_of(runtime)
    plan = plan_of(state, context, services)
    extensions = state.get("extensions", [])
    waiting = [each for each in extensions if each.segment.judgement is None]
    drafts = [Draft(cited_segment(it.segment, 1), (it.segment.strip,)) for it in waiting]
    result = await judged_in_part(
        effective_question(state), drafts, plan, context, services, called="segments"
    )
    by_id = dict(zip(map(id, waiting), result.judgements, strict=True))
    scored = [_scored(each, by_id.get(id(each)), context) for each in extensions]
    paths = next_beam(state.get("paths", []), scored, context.ablation.beam_width)
    longest = max((len(path.segments) for path in paths), default=0)
    ends = longest >= context.beam_depth or context.is_spent(total_usage(state) + result.usage)
    paths = [replace(path, is_finished=path.is_finished or ends) for path in paths]
    inert_drafts = [inert_draft(draft, services.answer_links) for draft in drafts_of(paths)]
    degraded = list(result.degraded)
    if all(path.is_finished for path in paths):
        degraded += dict.fromkeys(entry for _, entries in inert_drafts for entry in entries)
    return {
        "paths": paths,
        "extensions": [],
        "candidates": [draft for draft, _ in inert_drafts],
        "plan": result.plan,
        "usage": result.usage,
        "degraded": degraded,
    }


async def retrieve_more(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """For paths that ask for it, passages retrieved by the question and the last segment.

    They take the old ones' place; where nothing relevant is found, or the index fails, these stay.
    """
    context = options_of(runtime)
    plan = plan_of(state, context, services)
    known = {passage.id: passage for passage in state.get("documents", [])}
    paths: list[Path] = []
    usage, degraded = Usage(), list[Degraded]()
    for path in state.get("paths", []):
        passages: list[Passage] = []
        if path.wants_retrieval(plan.bars.retrieval):
            query = f"{effective_question(state)} {path.segments[-1].text}"
            passages, update = await _relevant_to(query, state, plan, context, services)
            usage += update.get("usage", Usage())
            degraded += update.get("degraded", [])
        known = {**{passage.id: passage for passage in passages}, **known}
        strips = tuple(replace(strip, kept=True) for strip in strips_of(passages, "passage"))
        paths.append(replace(path, passages=strips or path.passages))
    return {
        "paths": paths,
        "documents": sorted(known.values(), key=lambda passage: -passage.score),
        "internal_strips": _with_passages_of(paths, state.get("internal_strips", [])),
        "usage": usage,
        "degraded": degraded,
    }


async def _relevant_to(
    query: str, state: State, plan: Plan, context: Context, services: Services
) -> tuple[list[Passage], State]:
    """Graded against the question itself, not against the query."""
    passages, degraded = await retrieved(query, context.retrieve_k, state, context, services)
    searched_state = State(**{**state, "documents": list(passages)})
    update = await grade_documents(searched_state, plan, context, services)
    update["degraded"] = [*degraded, *update.get("degraded", [])]
    documents = update.get("documents", list(passages))
    return relevant(documents, plan.thresholds)[: context.max_drafts], update


def _best(knowledge: Sequence[Strip]) -> Strip:
    """The strip of the best score, whatever else of its page is kept; of equal ones the first."""
    return min(knowledge, key=lambda strip: (-strip.score, strip.position))


def _scored(each: Extension, judgement: Judgement | None, context: Context) -> Extension:
    """With its score, by the critic's judgement where it has one, else by its passage's."""
    segment = each.segment
    if judgement and judgement != Judgement():
        segment = replace(segment, judgement=judgement)
    score = score_of(segment.judgement, context) if segment.judgement else segment.strip.score
    return replace(each, segment=replace(segment, critique_score=score))


def _with_passages_of(paths: Sequence[Path], strips: Sequence[Strip]) -> list[Strip]:
    """All strips once, with those that came in."""
    came = [strip for path in paths for strip in path.passages]
    return list({strip.id: strip for strip in [*came, *strips]}.values())
