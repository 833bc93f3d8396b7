"""Several rankings of passages joined into one."""

from collections.abc import Sequence
from dataclasses import replace

from graphs.types import Passage

# As in the paper that proposes it (Cormack et al., 2009): how little the first ranks stand out.
RANK_OFFSET = 60


def by_reciprocal_ranks(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Every passage once, scored by the sum of 1 / (60 + rank); a lone ranking stays as it is."""
    if len(rankings) == 1:
        return list(rankings[0])
    found: dict[str, Passage] = {}
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, passage in enumerate(ranking, start=1):
            found.setdefault(passage.id, passage)
            scores[passage.id] = scores.get(passage.id, 0.0) + 1 / (RANK_OFFSET + rank)
    joined = [replace(passage, score=scores[key]) for key, passage in found.items()]
    return sorted(joined, key=lambda passage: -passage.score)
