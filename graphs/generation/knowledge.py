"""The knowledge an answer is written from: kept strips joined, in the order that was asked for."""

from collections.abc import Sequence
from dataclasses import replace

from graphs.grading.actions import uses_documents
from graphs.grading.strips import join, strips_of
from graphs.options import Context, Repack
from graphs.state import Answer
from graphs.types import Strip


def knowledge_of(state: Answer, context: Context) -> list[Strip]:
    """Internal and external knowledge within the token budget, repacked."""
    internal = internal_knowledge(state, context.top_strips)
    joined = join(internal, state.get("web_strips", []), context.evidence_tokens)
    return repacked(joined, context.repack)


def internal_knowledge(state: Answer, top_strips: int) -> list[Strip]:
    """The refined strips; whole passages where nothing graded them (`rag`)."""
    action = state.get("action")
    if not uses_documents(action):
        return []
    if action is not None:
        return list(state.get("internal_strips", []))
    whole = strips_of(state.get("documents", []), "passage")
    return [replace(strip, kept=place < top_strips) for place, strip in enumerate(whole)]


def repacked(knowledge: Sequence[Strip], order: Repack) -> list[Strip]:
    """The same strips: as they stand (CRAG 4.4), best first, best last, or best at both ends.

    Strips 1 to 6, best first, have the order 1 3 5 6 4 2 of `sides` (arXiv 2407.01219, repacking).
    Of equal scores local strips and earlier places count as better, so that repacking twice changes
    nothing.
    """
    if order == "document":
        return list(knowledge)
    best_first = sorted(
        knowledge, key=lambda strip: (-strip.score, strip.origin == "web", strip.position)
    )
    if order == "forward":
        return best_first
    if order == "reverse":
        return best_first[::-1]
    return [*best_first[::2], *best_first[1::2][::-1]]
