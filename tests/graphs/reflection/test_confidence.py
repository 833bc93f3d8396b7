"""Confidence: how far the sources of an answer stand out, and what the verdict makes of it."""

from dataclasses import replace

import pytest

from graphs.reflection.confidence import MIN_PASSAGES, PARTLY, SUPPORTED, confidence_of
from graphs.reflection.verdict import verdict_of
from graphs.state import Answer
from graphs.text.citations import citations_in
from graphs.types import Citation, Passage, Strip, Verdict

CITED = Strip("p#0", "p", "The tower of Umbra is 87 metres tall.", "", "a", "internal", (0, 0))
ANSWER = "The tower of Umbra is 87 metres tall [1]."
CITATIONS = citations_in(ANSWER, [CITED])


def passages(cited: float, *others: float, similarity: float | None = 0.1) -> list[Passage]:
    grades = {"p": cited} | {f"q{n}": grade for n, grade in enumerate(others)}
    return [
        Passage(name, "", "", "", relevance=grade, similarity=similarity)
        for name, grade in grades.items()
    ]


def confidence(cited: float, *others: float, support: float | None = 1.0) -> float | None:
    return confidence_of(CITATIONS, passages(cited, *others), [CITED], support)


def test_confidence_rises_with_how_far_the_source_stands_out() -> None:
    low, middle, high = (confidence(cited, *[-0.9] * 6) for cited in (-0.9, -0.6, 0.3))

    assert low is not None
    assert middle is not None
    assert high is not None
    assert low < PARTLY < high
    assert low < middle < high


def test_grade_and_standing_each_raise_it() -> None:
    above, beside = confidence(0.5, *[-0.9] * 6), confidence(0.5, *[0.3] * 6)
    assert above
    assert beside
    assert above > beside + 0.1

    def raised(chance: float) -> float:
        return 2 / (1 + (1 - chance) / chance / 9) - 1  # nine times the odds

    low, middle, high = (confidence(raised(p), *[2 * p - 1] * 6) for p in (0.1, 0.5, 0.8))
    assert low
    assert middle
    assert high
    assert low + 0.1 < middle < high - 0.1


def test_a_page_of_the_web_is_compared_with_other_pages_by_its_best_strip() -> None:
    def strip(page: int, place: int, grade: float) -> Strip:
        name = f"{'p' if page == 0 else page}"
        at = {"id": f"{name}#{place}", "document_id": name}
        return replace(CITED, origin="web", relevance=grade, similarity=0.1, **at)

    pages = [strip(0, 0, 0.3), strip(0, 1, -0.5), *(strip(n, 0, -0.9) for n in range(1, 7))]
    local = passages(0.9, *[0.9] * 6)[1:]

    assert confidence_of(CITATIONS, local, pages, 1.0) == confidence(0.3, *[-0.9] * 6)
    assert confidence_of(CITATIONS, local, pages[:2], 1.0) is None, "a single page"


def test_support_bounds_confidence() -> None:
    whole, half = (confidence(0.0, *[-0.9] * 6, support=share) for share in (1.0, 0.5))

    assert whole is not None
    assert half == pytest.approx(whole / 2, abs=1e-4)


@pytest.mark.parametrize(
    ("graded", "citations", "support"),
    [
        (passages(0.3, *[-0.9] * 6), CITATIONS, None),
        (passages(0.3, *[-0.9] * 6, similarity=None), CITATIONS, 1.0),
        (passages(0.3, *[-0.9] * (MIN_PASSAGES - 2)), CITATIONS, 1.0),
        (passages(0.3, *[-0.9] * 6), [], 1.0),
    ],
    ids=["not judged", "no encoder", "too few passages", "no citation"],
)
def test_nothing_tells_it(
    graded: list[Passage], citations: list[Citation], support: float | None
) -> None:
    assert confidence_of(citations, graded, [CITED], support) is None


@pytest.mark.parametrize(
    ("cited", "verdict"), [(0.8, "supported"), (0.0, "partly"), (-0.95, "unsupported")]
)
def test_the_verdict_promises_no_more_than_the_confidence(cited: float, verdict: Verdict) -> None:
    state = Answer(
        answer=ANSWER, citations=CITATIONS, documents=passages(cited, *[-0.9] * 6),
        internal_strips=[CITED], stopped_by="answered", generator="extractive",
    )  # fmt: skip

    judged = verdict_of(state)

    assert judged.verdict == verdict
    assert judged.confidence is not None
    assert (judged.confidence >= SUPPORTED) == (verdict == "supported")
