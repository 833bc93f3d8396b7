"""Confidence: the probability that an answer is right, from how far its source stands out.

A score of relevance says little across questions, for one question is near to every text and
another to none. What tells right answers from wrong ones is how far the cited passage stands above
the others that were found for the same question (query performance prediction: WIG, Zhou and Croft
2007; NQC, Shtok et al. 2012).
"""

from collections.abc import Sequence
from math import exp
from statistics import median

from graphs.types import Citation, Strip

SLOPE, SHIFT = 68.7, -0.76
"""Logistic regression of right answers on the standing (benchmarks/confidence.md)."""
SUPPORTED, PARTLY = 0.85, 0.4
"""Least confidence of these verdicts."""
MIN_PASSAGES = 3
"""Among fewer passages nothing stands out."""


def confidence_of(
    citations: Sequence[Citation], strips: Sequence[Strip], support: float | None
) -> float | None:
    """The probability (0 to 1) that the answer is right; None where nothing can tell it.

    `support` is that of the answer's sentences by their sources (0 to 1).
    """
    standing = standing_of(citations, strips)
    if support is None or standing is None:
        return None
    return round(support / (1 + exp(-(SLOPE * standing + SHIFT))), 4)


def standing_of(citations: Sequence[Citation], strips: Sequence[Strip]) -> float | None:
    """By how much the passage cited first is nearer to the question than the median passage.

    `strips` are all that were graded for the question; a passage is as similar to it as its best
    strip. None where it has no similarity, or too few passages have.
    """
    passages = dict[str, float]()
    for strip in strips:
        if strip.similarity is not None:
            best = passages.get(strip.document_id, strip.similarity)
            passages[strip.document_id] = max(best, strip.similarity)
    source = {strip.id: strip.document_id for strip in strips}
    cited = source.get(citations[0].strip_id) if citations else None
    if cited not in passages or len(passages) < MIN_PASSAGES:
        return None
    return passages[cited] - median(passages.values())
