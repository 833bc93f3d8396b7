"""Prune the beam: judge the new segments and keep the best long answers (Self-RAG 3.3)."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.critics.factory import critic_of
from graphs.errors import CriticFailed
from graphs.ports import Services
from graphs.reflection.beam import Extension, drafts_of, extended
from graphs.reflection.budget import is_spent
from graphs.reflection.scores import score_of
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.types import Degraded, Draft, Usage


async def prune(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The best `beam_width` paths, and what they come to as drafts.

    Where the critic fails the passages' own scores decide, and what is said stays unjudged.
    """
    context, extensions = tunables(runtime), list(state.get("extensions", []))
    waiting = [each for each in extensions if each.segment.judgement is None]
    usage, degraded = Usage(), list[Degraded]()
    try:
        if waiting:
            found, usage = await critic_of(services).judge(
                asked(state), [_as_draft(each) for each in waiting]
            )
            judged = dict(zip(map(id, waiting), found, strict=True))
            extensions = [
                replace(e, segment=replace(e.segment, judgement=judged[id(e)]))
                if id(e) in judged
                else e
                for e in extensions
            ]
    except CriticFailed as error:
        degraded = [Degraded(error.component, str(error))]
    scored = [_scored(each, context) for each in extensions]
    paths = extended(state.get("paths", []), scored, context.beam_width)
    longest = max((len(path.segments) for path in paths), default=0)
    spent = state.get("usage", Usage()) + usage
    ends = longest >= context.beam_depth or is_spent(spent, context)
    return {
        "paths": [replace(path, is_finished=path.is_finished or ends) for path in paths],
        "extensions": [],
        "candidates": drafts_of(paths),
        "usage": usage,
        "degraded": degraded,
    }


def _as_draft(each: Extension) -> Draft:
    return Draft(each.segment.cited(1), (each.segment.strip,))


def _scored(each: Extension, context: Context) -> Extension:
    segment = each.segment
    score = score_of(segment.judgement, context) if segment.judgement else segment.strip.score
    return replace(each, segment=replace(segment, score=score))
