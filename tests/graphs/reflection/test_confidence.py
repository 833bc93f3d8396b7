"""Confidence: how far the sources of an answer stand out, and what the verdict makes of it."""

from dataclasses import replace

import pytest

from graphs.reflection.confidence import MIN_PASSAGES, PARTLY, SUPPORTED, confidence_of
from graphs.reflection.verdict import verdict_of
from graphs.state import Answer
from graphs.text.citations import citations_in
from graphs.types import Citation, Strip, Verdict

CITED = Strip("p#0", "p", "The tower of Umbra is 87 metres tall.", "", "a", "internal", (0, 0))
ANSWER = "The tower of Umbra is 87 metres tall [1]."
CITATIONS = citations_in(ANSWER, [CITED])


def strips(cited: float | None, *others: float) -> list[Strip]:
    rest = [
        replace(CITED, id=f"q{n}#0", document_id=f"q{n}", similarity=similarity)
        for n, similarity in enumerate(others)
    ]
    return [replace(CITED, similarity=cited), *rest]


def confidence(cited: float | None, *others: float, support: float | None = 1.0) -> float | None:
    return confidence_of(CITATIONS, strips(cited, *others), support)


def test_confidence_rises_with_how_far_the_source_stands_out() -> None:
    low, middle, high = (confidence(cited, *[0.1] * 6) for cited in (0.05, 0.11, 0.15))

    assert low is not None
    assert middle is not None
    assert high is not None
    assert low < PARTLY < high
    assert low < middle < high
    assert confidence(0.75, *[0.7] * 6) == pytest.approx(high), "for its question, not at all"


def test_support_bounds_confidence() -> None:
    whole, half = (confidence(0.3, *[0.1] * 6, support=share) for share in (1.0, 0.5))

    assert whole is not None
    assert half == pytest.approx(whole / 2, abs=1e-4)


@pytest.mark.parametrize(
    ("cited", "others", "citations", "support"),
    [
        (0.3, [0.1] * 6, CITATIONS, None),
        (None, [0.1] * 6, CITATIONS, 1.0),
        (0.3, [0.1] * (MIN_PASSAGES - 2), CITATIONS, 1.0),
        (0.3, [0.1] * 6, [], 1.0),
    ],
    ids=["not judged", "no encoder", "too few passages", "no citation"],
)
def test_nothing_tells_it(
    cited: float | None, others: list[float], citations: list[Citation], support: float | None
) -> None:
    assert confidence_of(citations, strips(cited, *others), support) is None


@pytest.mark.parametrize(
    ("cited", "verdict"), [(0.2, "supported"), (0.12, "partly"), (0.02, "unsupported")]
)
def test_the_verdict_promises_no_more_than_the_confidence(cited: float, verdict: Verdict) -> None:
    state = Answer(
        answer=ANSWER, citations=CITATIONS, internal_strips=strips(cited, *[0.1] * 6),
        stopped_by="answered",
    )  # fmt: skip

    judged = verdict_of(state)

    assert judged.verdict == verdict
    assert judged.confidence is not None
    assert (judged.confidence >= SUPPORTED) == (verdict == "supported")
