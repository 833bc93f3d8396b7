"""The order of the knowledge that a generator is given (arXiv 2407.01219, repacking)."""

from collections.abc import Sequence
from typing import Literal

from graphs.types import Strip

Repack = Literal["document", "forward", "reverse", "sides"]


def repacked(knowledge: Sequence[Strip], order: Repack) -> list[Strip]:
    """The same strips: as they stand (CRAG 4.4), best first, best last, or best at both ends.

    Strips 1 to 6, best first, have the order 1 3 5 6 4 2 of `sides`. Of equal scores local strips
    and earlier places count as better, so that repacking twice changes nothing.
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
