"""Look again in the index for those long answers that ask for more evidence."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.critics.factory import critic_of
from graphs.errors import RetrieverFailed
from graphs.grading.actions import relevant
from graphs.grading.strips import strips_of
from graphs.nodes.grade import judged
from graphs.ports import Services
from graphs.reflection.beam import Path
from graphs.state import Context, Graded, Reflecting, State, asked, tunables
from graphs.types import Degraded, Passage, Strip, Usage


async def look(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """Passages found by the question together with what was said last take the old ones' place.

    Where nothing relevant is found, or the index fails, the old ones stay.
    """
    context = tunables(runtime)
    threshold = context.bars(critic_of(services).bars).retrieval
    known = {passage.id: passage for passage in state.get("documents", [])}
    paths: list[Path] = []
    usage, degraded = Usage(), list[Degraded]()
    for path in state.get("paths", []):
        passages: list[Passage] = []
        if path.asks(threshold):
            query = f"{asked(state)} {path.segments[-1].text}"
            try:
                passages, graded = await _relevant_to(query, state, context, services)
            except RetrieverFailed as error:
                degraded.append(Degraded(error.component, str(error)))
            else:
                usage += graded.get("usage", Usage())
                degraded += graded.get("degraded", [])
        known = {**{passage.id: passage for passage in passages}, **known}
        strips = tuple(replace(strip, kept=True) for strip in strips_of(passages, "passage"))
        paths.append(replace(path, passages=strips or path.passages))
    return {
        "paths": paths,
        "documents": sorted(known.values(), key=lambda passage: -passage.score),
        "internal_strips": _with(state.get("internal_strips", []), paths),
        "usage": usage,
        "degraded": degraded,
    }


async def _relevant_to(
    query: str, state: State, context: Context, services: Services
) -> tuple[list[Passage], Graded]:
    """Graded against the question itself, not against the query."""
    passages = list(
        await services.retriever.retrieve(query, context.retrieve_k, context.searching())
    )
    graded = await judged(State(**{**state, "documents": passages}), context, services)
    bounds = context.thresholds(services.evaluator.thresholds)
    found = graded.get("documents", passages)
    kept = relevant(found, bounds, is_graded=graded.get("is_graded", False))
    return kept[: context.max_drafts], graded


def _with(strips: Sequence[Strip], paths: Sequence[Path]) -> list[Strip]:
    """All strips once, with those that came in."""
    came = [strip for path in paths for strip in path.passages]
    return list({strip.id: strip for strip in [*came, *strips]}.values())
