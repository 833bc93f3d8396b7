"""Confidence: the probability that an answer is right, from the sources that it cites.

A grade of relevance alone says little across questions, for one question is near to every text and
another to none. How far it stands above the grades of the other passages of the same question tells
right answers from wrong ones (query performance prediction: WIG, Zhou and Croft 2007; NQC, Shtok et
al. 2012). Two readings that err on other questions stand beside it: the encoder's similarity of
question and cited strip, which reads both texts apart, and the share of the question's content
words in the cited texts.
"""

from collections.abc import Sequence
from math import exp
from statistics import median

from graphs.grading.relevance import log_odds
from graphs.text.coverage import coverage
from graphs.text.language import script_of
from graphs.types import Citation, Passage, Strip

WEIGHTS = (0.7201, 45.37, 2.667, 1.793)
SHIFT = -10.732
"""Logistic regression of right answers on their readings (benchmarks/confidence.md)."""
SUPPORTED, PARTLY = 0.8, 0.2
"""Least confidence of these verdicts: from the first on about nine in ten answers were right."""
MIN_PASSAGES = 3
"""Among fewer passages nothing stands out."""
MEAN_COVERAGE = {"en": 0.57, "zh": 0.26}
"""Of the fitted answers: stands in where a source is in another language, or nothing is asked by
content words."""


def confidence_of(
    question: str,
    citations: Sequence[Citation],
    passages: Sequence[Passage],
    strips: Sequence[Strip],
    support: float | None,
) -> float | None:
    """The probability (0 to 1) that the answer is right; None where nothing can tell it.

    `support` is that of the answer's sentences by their sources (0 to 1).
    """
    readings = readings_of(question, citations, passages, strips)
    if support is None or readings is None:
        return None
    evidence = sum(weight * reading for weight, reading in zip(WEIGHTS, readings, strict=True))
    return round(support / (1 + exp(-evidence - SHIFT)), 4)


def readings_of(
    question: str,
    citations: Sequence[Citation],
    passages: Sequence[Passage],
    strips: Sequence[Strip],
) -> tuple[float, float, float, float] | None:
    """Standing, similarity, coverage, and 1 for a question in Chinese, whose levels are others.

    The standing is how far the grade of the passage cited first is above the median one, in logits.
    `passages` and `strips` are all that were graded for the question. Pages of the web, which have
    the grade of their best strip, are compared among each other, for passages are graded in their
    pool and strips are not. None without an encoder, or with too few passages.
    """
    sources = {strip.id: strip for strip in strips}
    cited = sources.get(citations[0].strip_id) if citations else None
    if cited is None or cited.similarity is None:
        return None
    grades = _pages(strips) if cited.origin == "web" else _graded(passages)
    if cited.document_id not in grades or len(grades) < MIN_PASSAGES:
        return None
    standing = log_odds(grades[cited.document_id]) - median(map(log_odds, grades.values()))
    language = script_of(question)
    texts = "\n".join(text for it in citations for text in (it.title, it.text))
    covered = coverage(question, texts) if script_of(texts) == language else None
    covered = MEAN_COVERAGE[language] if covered is None else covered
    return standing, cited.similarity, covered, float(language == "zh")


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
