"""Confidence: the probability that an answer is right, from the grade of the passage cited first.

A grade of relevance alone says little across questions, for one question is near to every text and
another to none. It tells right answers from wrong ones together with how far it stands above the
grades of the other passages that were found for the same question (query performance prediction:
WIG, Zhou and Croft 2007; NQC, Shtok et al. 2012).
"""

from collections.abc import Sequence
from math import exp
from statistics import median

from graphs.grading.relevance import log_odds
from graphs.types import Citation, Passage, Strip

STANDING, GRADE, SHIFT = 0.615, 0.393, -2.608
"""Logistic regression of right answers on both readings (benchmarks/confidence.md)."""
SUPPORTED, PARTLY = 0.7, 0.2
"""Least confidence of these verdicts: from the first on nine in ten answers were right of those
fitted on, eight in ten of others."""
MIN_PASSAGES = 3
"""Among fewer passages nothing stands out."""


def confidence_of(
    citations: Sequence[Citation],
    passages: Sequence[Passage],
    strips: Sequence[Strip],
    support: float | None,
) -> float | None:
    """The probability (0 to 1) that the answer is right; None where nothing can tell it.

    `support` is that of the answer's sentences by their sources (0 to 1).
    """
    readings = readings_of(citations, passages, strips)
    if support is None or readings is None:
        return None
    standing, grade = readings
    return round(support / (1 + exp(-(STANDING * standing + GRADE * grade + SHIFT))), 4)


def readings_of(
    citations: Sequence[Citation], passages: Sequence[Passage], strips: Sequence[Strip]
) -> tuple[float, float] | None:
    """How far the grade of the passage cited first stands above the median one, and that grade.

    Both in logits. `passages` and `strips` are all that were graded for the question. Pages of the
    web, which have the grade of their best strip, are compared among each other, for passages are
    graded in their pool and strips are not. None without an encoder, or with too few passages.
    """
    sources = {strip.id: strip for strip in strips}
    cited = sources.get(citations[0].strip_id) if citations else None
    if cited is None:
        return None
    grades = _pages(strips) if cited.origin == "web" else _graded(passages)
    if cited.document_id not in grades or len(grades) < MIN_PASSAGES:
        return None
    grade = log_odds(grades[cited.document_id])
    return grade - median(map(log_odds, grades.values())), grade


def _graded(texts: Sequence[Passage | Strip]) -> dict[str, float]:
    """Grades by id, of what an encoder has read, too."""
    return {
        one.id: one.relevance
        for one in texts
        if one.relevance is not None and one.similarity is not None
    }


def _pages(strips: Sequence[Strip]) -> dict[str, float]:
    of_web = [strip for strip in strips if strip.origin == "web"]
    grades, best = _graded(of_web), dict[str, float]()
    for strip in of_web:
        if (grade := grades.get(strip.id)) is not None:
            best[strip.document_id] = max(best.get(strip.document_id, grade), grade)
    return best
