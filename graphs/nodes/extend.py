"""Extend every unfinished long answer by a segment from each of its passages, side by side."""

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.generation.answer import EXTRACTIVE
from graphs.nodes.generate import asked_of
from graphs.ports import Services
from graphs.reflection.beam import Extension, Path
from graphs.reflection.budget import calls_left, within_budget, writes_by_model
from graphs.reflection.segments import segment_from
from graphs.state import Context, Reflecting, State, tunables
from graphs.types import Strip, Usage


async def extend(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """All segments that could come next, not judged yet; the first time from every candidate."""
    context = tunables(runtime)
    able = within_budget(state, context, services)
    paths = state.get("paths") or [
        Path(tuple(_best(draft.knowledge) for draft in state.get("candidates", [])))
    ]
    asked = asked_of(state, [], context, services)
    places = [
        (n, path, passage)
        for n, path in enumerate(paths)
        if not path.is_finished
        for passage in path.passages
    ]
    if writes_by_model(able):
        places = places[: calls_left(state, context)]
    told = await gather_with_concurrency(
        None, *(segment_from(asked, passage, path.text, able) for _, path, passage in places)
    )
    writer = services.chat_name if writes_by_model(able) else EXTRACTIVE
    lacks_calls = able is not services
    return {
        "paths": paths,
        "extensions": [
            Extension(n, replace(each.segment, generator=writer, for_want_of_calls=lacks_calls))
            for (n, _, _), each in zip(places, told, strict=True)
            if each.segment is not None
        ],
        "usage": sum((each.usage for each in told), Usage()),
        "degraded": list(dict.fromkeys(entry for each in told for entry in each.degraded)),
    }


def _best(knowledge: Sequence[Strip]) -> Strip:
    """The strip of the best score, whatever else of its page is kept; of equal ones the first."""
    return min(knowledge, key=lambda strip: (-strip.score, strip.position))
