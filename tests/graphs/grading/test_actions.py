"""The action from the scores (CRAG 4.3; golden checks of the thresholds)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.grading.actions import PRESETS, action_of, choose_action, searches_web, uses_documents
from graphs.options import Ablation
from graphs.state import Context
from graphs.types import Action, Thresholds

SCORES = st.lists(st.floats(-1.5, 1.5), max_size=12)


@pytest.mark.parametrize(
    ("scores", "action"),
    [
        ([0.592], "correct"),
        ([0.591, -1], "ambiguous"),
        ([-0.995], "ambiguous"),
        ([-0.9951], "incorrect"),
        ([-1, -1, 0.592], "correct"),
        ([-1, -0.9951], "incorrect"),
        ([], "incorrect"),
    ],
)
def test_boundaries_of_the_published_thresholds(scores: list[float], action: Action) -> None:
    assert action_of(scores, upper=0.592, lower=-0.995) == action


@pytest.mark.parametrize(
    ("preset", "upper", "lower"),
    [
        ("popqa", 0.59, -0.99),
        ("pubhealth", 0.5, -0.91),
        ("arc", 0.5, -0.91),
        ("biography", 0.95, -0.91),
    ],
)
def test_presets_and_their_boundaries(preset: str, upper: float, lower: float) -> None:
    assert PRESETS[preset] == Thresholds(upper, lower, strip_floor=-0.5)
    for score, action in (
        (upper, "correct"),
        (upper - 1e-6, "ambiguous"),
        (lower, "ambiguous"),
        (lower - 1e-6, "incorrect"),
    ):
        assert choose_action([[score]], PRESETS[preset], Context()) == action


def test_there_is_no_other_preset() -> None:
    assert set(PRESETS) == {"popqa", "pubhealth", "arc", "biography"}


@given(SCORES, st.randoms(), st.sampled_from(["none", "correct", "incorrect", "ambiguous"]))
def test_the_order_of_passages_does_not_matter(
    scores: list[float], random: object, without: str
) -> None:
    shuffled = scores.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    context = Context(ablation=Ablation(without_action=without))  # type: ignore[arg-type]

    assert choose_action([scores], PRESETS["popqa"], context) == choose_action(
        [shuffled], PRESETS["popqa"], context
    )


@given(SCORES, st.floats(-1.5, 1.5))
def test_one_more_passage_never_lowers_the_action(scores: list[float], more: float) -> None:
    rank = ["incorrect", "ambiguous", "correct"]
    before, after = (action_of(some, 0.592, -0.995) for some in (scores, [*scores, more]))

    assert rank.index(after) >= rank.index(before)


@given(SCORES, st.sampled_from(["correct", "incorrect", "ambiguous"]))
def test_an_action_left_out_is_never_taken(scores: list[float], left_out: Action) -> None:
    assert (
        choose_action(
            [scores], PRESETS["popqa"], Context(ablation=Ablation(without_action=left_out))
        )
        != left_out
    )


@given(SCORES, st.sampled_from(["correct", "incorrect", "ambiguous"]))
def test_the_only_action_is_always_taken(scores: list[float], only: Action) -> None:
    context = Context(ablation=Ablation(only_action=only), ablation=Ablation(without_action=only))

    assert choose_action([scores], PRESETS["popqa"], context) == only


@pytest.mark.parametrize(
    ("action", "web", "searches", "has_engine", "expected"),
    [
        ("correct", "auto", 1, True, False),
        ("ambiguous", "auto", 1, True, True),
        ("incorrect", "auto", 1, True, True),
        (None, "auto", 1, True, False),
        ("correct", "always", 1, True, True),
        (None, "always", 1, True, True),
        ("incorrect", "never", 1, True, False),
        ("incorrect", "auto", 0, True, False),
        ("incorrect", "always", 1, False, False),
    ],
)
def test_when_the_web_is_searched(
    action: Action | None, web: str, searches: int, has_engine: bool, expected: bool
) -> None:
    context = Context(web=web, max_web_searches=searches)  # type: ignore[arg-type]

    assert searches_web(action, context, has_engine) is expected


def test_incorrect_alone_drops_the_documents() -> None:
    assert [uses_documents(a) for a in ("correct", "ambiguous", None)] == [True] * 3
    assert not uses_documents("incorrect")


@pytest.mark.parametrize(
    ("whole", "parts", "action"),
    [
        (0.7, (-1, -1), "correct"),
        (-1, (0.7, 0.7), "correct"),
        (-1, (0.7, -1), "ambiguous"),
        (0.0, (-1, -1), "ambiguous"),
        (-1, (-1, -1), "incorrect"),
    ],
)
def test_every_part_of_a_question_counts(
    whole: float, parts: tuple[float, ...], action: Action
) -> None:
    grades = [[whole], *([score] for score in parts)]

    assert choose_action(grades, PRESETS["popqa"], Context()) == action
    assert choose_action(
        grades, PRESETS["popqa"], Context(ablation=Ablation(without_action="ambiguous"))
    ) == (
        "correct"
        if action == "ambiguous" and any(score > 0.5 for score in parts)
        else "correct"
        if action == "correct"
        else "incorrect"
    )
