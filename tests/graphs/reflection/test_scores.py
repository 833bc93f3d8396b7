"""Reflection tokens as numbers: the papers' figures and the bounds."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.options import Ablation, CritiqueWeights
from graphs.reflection import scores as reflection
from graphs.reflection.scores import (
    RELEVANT,
    RETRIEVE,
    SUPPORT,
    UTILITY,
    accepted,
    needs_retrieval,
    retrieval_share,
    score_of,
)
from graphs.state import Context
from graphs.text.sentences import plain
from graphs.types import Bars, Judgement

TOKENS = (*RETRIEVE, *RELEVANT, *SUPPORT, *UTILITY)
SHARE = st.floats(0, 1)
probabilities = st.dictionaries(st.sampled_from(TOKENS), SHARE)
judgements = st.builds(
    Judgement,
    relevance=SHARE | st.none(),
    support=SHARE | st.none(),
    utility=st.floats(-1, 1) | st.none(),
    likelihood=SHARE | st.none(),
)


def of(group: Sequence[str], *values: float) -> dict[str, float]:
    return dict(zip(group, values, strict=True))


def test_it_retrieves_above_the_threshold() -> None:
    for p, decision in [(0.9, True), (0.1, False), (0.2, False)]:
        share = retrieval_share(of(RETRIEVE, p, 1 - p))

        assert share == pytest.approx(p)
        assert needs_retrieval(share, 0.2) is decision


def test_the_golden_figures() -> None:
    assert reflection.support(of(SUPPORT, 0.6, 0.3, 0.1)) == pytest.approx(0.75)
    assert reflection.relevance(of(RELEVANT, 0.3, 0.1)) == pytest.approx(0.75)
    assert reflection.utility(of(UTILITY, 0, 0, 0, 0, 1)) == 1
    assert reflection.utility(of(UTILITY, 1, 0, 0, 0, 0)) == -1
    assert reflection.utility(of(UTILITY, *[0.2] * 5)) == pytest.approx(0, abs=1e-12)
    assert [reflection.grade_of(use) for use in (-1, 0, 1)] == [1, 3, 5]
    judged = Judgement(relevance=0.8, support=0.75, utility=0.5, likelihood=0.4)
    assert score_of(judged, Context()) == pytest.approx(0.8 + 0.75 + 0.25)
    assert score_of(judged, Context(ablation=Ablation(sequence_score=True))) == pytest.approx(2.2)


@given(probabilities)
def test_every_component_keeps_its_bounds(p: dict[str, float]) -> None:
    for share in (retrieval_share(p), reflection.relevance(p), reflection.support(p)):
        assert 0 <= share <= 1
    assert -1 <= reflection.utility(p) <= 1


@given(probabilities, st.floats(0.01, 100))
def test_the_mass_of_a_group_does_not_matter(p: dict[str, float], factor: float) -> None:
    scaled = {token: value * factor for token, value in p.items() if value > 1e-6}
    whole = {token: value for token, value in p.items() if value > 1e-6}

    assert reflection.support(scaled) == pytest.approx(reflection.support(whole), abs=1e-9)
    assert reflection.utility(scaled) == pytest.approx(reflection.utility(whole), abs=1e-9)


@given(judgements)
def test_the_score_is_a_number_within_its_weights(judgement: Judgement) -> None:
    assert -0.5 <= score_of(judgement, Context()) <= 2.5
    weightless = Context(weights=CritiqueWeights(relevance=0, support=0, utility=0))
    assert score_of(judgement, weightless) == 0


def test_acceptance_wants_both_bars_and_nothing_to_mend() -> None:
    bars = Bars(support=0.7, utility=4)

    assert accepted(Judgement(1, 0.7, 0.5), bars)
    assert not accepted(Judgement(1, 0.69, 1), bars)
    assert not accepted(Judgement(1, 1, 0.49), bars)
    assert not accepted(Judgement(1, 1, 1, weak=("So it is.",)), bars)
    assert not accepted(Judgement(1, 1, 1, uncovered=("why",)), bars)
    assert not accepted(Judgement(1, None, 1), bars), "what was not judged is not accepted"
    assert not accepted(Judgement(1, 1, None), bars)


def test_case_blanks_and_outer_marks_do_not_make_two_answers() -> None:
    for one, other in [("It is  so.", "it is so"), ("“是。”", "是"), ("\nYes!", "yes")]:
        assert plain(one) == plain(other)
