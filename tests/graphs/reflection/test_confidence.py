"""Confidence: how far the sources of an answer stand out, and what the verdict makes of it."""

from dataclasses import replace

import pytest

from graphs.reflection.confidence import MIN_PASSAGES, PARTLY, SUPPORTED, confidence_of
from graphs.reflection.verdict import verdict_of
from graphs.state import Answer
from graphs.text.citations import citations_in
from graphs.types import Citation, Passage, Strip, Verdict

CITED = Strip(
    "p#0",
    "p",
    "The tower of Umbra is 87 metres tall.",
    "",
    "a",
    "internal",
    (0, 0),
    similarity=0.13,
)
ANSWER = "The tower of Umbra is 87 metres tall [1]."
CITATIONS = citations_in(ANSWER, [CITED])
QUESTION = "How many metres tall is the tower of Umbra?"


def passages(cited: float, *others: float, similarity: float | None = 0.1) -> list[Passage]:
    grades = {"p": cited} | {f"q{n}": grade for n, grade in enumerate(others)}
    return [
        Passage(name, "", "", "", relevance=grade, similarity=similarity)
        for name, grade in grades.items()
    ]


def confidence(
    cited: float,
    *others: float,
    support: float | None = 1.0,
    similarity: float | None = 0.13,
    question: str = QUESTION,
) -> float | None:
    strips = [replace(CITED, similarity=similarity)]
    return confidence_of(question, CITATIONS, passages(cited, *others), strips, support)


def test_a_strip_that_no_encoder_has_read_leaves_it_open() -> None:
    assert confidence(0.5, *[-0.9] * 6, similarity=None) is None


def test_confidence_rises_with_how_far_the_source_stands_out() -> None:
    low, middle, high = (confidence(cited, *[-0.9] * 6) for cited in (-0.9, -0.6, 0.3))

    assert low is not None
    assert middle is not None
    assert high is not None
    assert low < PARTLY < high
    assert low < middle < high


def test_each_reading_raises_it() -> None:
    above, beside = confidence(0.5, *[-0.9] * 6), confidence(0.5, *[0.3] * 6)
    assert above
    assert beside
    assert above > beside + 0.1

    far, near = (confidence(0.5, *[-0.9] * 6, similarity=each) for each in (0.1, 0.15))
    assert far
    assert near
    assert near > far + 0.1

    covered, other = (
        confidence(0.5, *[-0.9] * 6, question=f"How {tall} is the tower of {name}?")
        for tall, name in (("tall", "Umbra"), ("deep", "Norland"))
    )
    assert covered
    assert other
    assert covered > other + 0.1


def test_a_question_in_another_language_shares_no_words() -> None:
    same, chinese = (
        confidence(0.5, *[-0.9] * 6, question=question)
        for question in (QUESTION, "乌姆布拉的塔有多高？")
    )
    assert same
    assert chinese
    assert abs(chinese - same) < 0.2, "neither for the answer nor against it"


def test_a_page_of_the_web_is_compared_with_other_pages_by_its_best_strip() -> None:
    def strip(page: int, place: int, grade: float) -> Strip:
        name = f"{'p' if page == 0 else page}"
        at = {"id": f"{name}#{place}", "document_id": name}
        return replace(CITED, origin="web", relevance=grade, similarity=0.13, **at)

    pages = [strip(0, 0, 0.3), strip(0, 1, -0.5), *(strip(n, 0, -0.9) for n in range(1, 7))]
    local = passages(0.9, *[0.9] * 6)[1:]

    assert confidence_of(QUESTION, CITATIONS, local, pages, 1.0) == confidence(0.3, *[-0.9] * 6)
    assert confidence_of(QUESTION, CITATIONS, local, pages[:2], 1.0) is None, "a single page"


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
    assert confidence_of(QUESTION, citations, graded, [CITED], support) is None


@pytest.mark.parametrize(
    ("cited", "verdict"), [(0.8, "supported"), (0.0, "partly"), (-0.95, "unsupported")]
)
def test_the_verdict_promises_no_more_than_the_confidence(cited: float, verdict: Verdict) -> None:
    state = Answer(
        answer=ANSWER, citations=CITATIONS, documents=passages(cited, *[-0.9] * 6),
        internal_strips=[CITED], stopped_by="answered", generator="extractive",
    )  # fmt: skip

    judged = verdict_of(state, QUESTION)

    assert judged.verdict == verdict
    assert judged.confidence is not None
    assert (judged.confidence >= SUPPORTED) == (verdict == "supported")
