"""The action from the scores (CRAG 4.3; golden checks of the thresholds)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from graphs.grading.actions import (
    PAPER_THRESHOLDS,
    action_of,
    choose_action,
    is_exhausted,
    relevant,
    searches_web,
    uses_documents,
)
from graphs.options import MAX_RETRIEVALS, Ablation
from graphs.types import Action, Bars, Plan, Thresholds
from graphs.workflows import crag, self_crag
from tests.fakes import passage

SCORES = st.lists(st.floats(-1.5, 1.5), max_size=12)
POPQA = PAPER_THRESHOLDS["popqa"]


def test_boundaries_of_the_published_thresholds() -> None:
    for scores, action in [
        ([0.592], "correct"),
        ([0.591, -1], "ambiguous"),
        ([-0.995], "ambiguous"),
        ([-0.9951], "incorrect"),
        ([-1, -1, 0.592], "correct"),
        ([-1, -0.9951], "incorrect"),
        ([], "incorrect"),
    ]:
        assert action_of(scores, upper=0.592, lower=-0.995) == action


def test_the_thresholds_of_the_paper_and_their_boundaries() -> None:
    assert PAPER_THRESHOLDS.keys() == {"popqa", "pubhealth", "arc", "biography"}
    for data, upper, lower in [
        ("popqa", 0.59, -0.99),
        ("pubhealth", 0.5, -0.91),
        ("arc", 0.5, -0.91),
        ("biography", 0.95, -0.91),
    ]:
        assert PAPER_THRESHOLDS[data] == Thresholds(upper, lower, strip_floor=-0.5)
        for score, action in (
            (upper, "correct"),
            (upper - 1e-6, "ambiguous"),
            (lower, "ambiguous"),
            (lower - 1e-6, "incorrect"),
        ):
            assert choose_action([[score]], PAPER_THRESHOLDS[data], Ablation()) == action


@given(SCORES, st.randoms(), st.sampled_from(["none", "correct", "incorrect", "ambiguous"]))
def test_the_order_of_passages_does_not_matter(
    scores: list[float], random: object, without: str
) -> None:
    shuffled = scores.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    ablation = Ablation(without_action=without)  # type: ignore[arg-type]

    assert choose_action([scores], POPQA, ablation) == choose_action([shuffled], POPQA, ablation)


@given(SCORES, st.floats(-1.5, 1.5))
def test_one_more_passage_never_lowers_the_action(scores: list[float], more: float) -> None:
    rank = ["incorrect", "ambiguous", "correct"]
    before, after = (action_of(some, 0.592, -0.995) for some in (scores, [*scores, more]))

    assert rank.index(after) >= rank.index(before)


@given(SCORES, st.sampled_from(["correct", "incorrect", "ambiguous"]))
def test_an_action_left_out_is_never_taken_and_the_only_one_always(
    scores: list[float], action: Action
) -> None:
    assert choose_action([scores], POPQA, Ablation(without_action=action)) != action
    only = Ablation(only_action=action, without_action=action)
    assert choose_action([scores], POPQA, only) == action


def test_each_action_has_its_branches() -> None:
    for action, web, expected in [
        ("correct", "auto", ["refine"]),
        ("ambiguous", "auto", ["refine", "rewrite_query"]),
        ("incorrect", "auto", ["rewrite_query"]),
        (None, "auto", []),
        ("correct", "always", ["refine", "rewrite_query"]),
        (None, "always", ["rewrite_query"]),
        ("incorrect", "never", []),
        ("ambiguous", "never", ["refine"]),
    ]:
        plan = Plan(POPQA, Bars(), "en", web=web)

        assert crag.by_action({"action": action, "plan": plan}) == (expected or ["generate"])
        drafted = self_crag.by_action({"action": action, "plan": plan})
        assert drafted == (expected or ["build_candidates"])
        assert searches_web(action, plan) is ("rewrite_query" in expected)


def test_without_a_plan_the_web_is_left_alone() -> None:
    assert crag.by_action({"action": "ambiguous"}) == ["refine"]
    assert crag.by_action({"action": "incorrect"}) == crag.by_action({}) == ["generate"]


def test_incorrect_alone_drops_the_documents() -> None:
    assert [uses_documents(a) for a in ("correct", "ambiguous", None)] == [True] * 3
    assert not uses_documents("incorrect")


def test_what_an_action_could_rest_on_is_relevant_and_so_is_what_nobody_graded() -> None:
    graded = [replace(passage("x"), relevance=score) for score in (0.9, -0.99, -0.991, None)]

    assert [p.relevance for p in relevant(graded, POPQA)] == [0.9, -0.99, None]


def test_the_index_is_searched_again_only_where_more_may_be_found() -> None:
    assert not is_exhausted(1, document_count=10, k=10)
    assert is_exhausted(1, document_count=9, k=10)
    assert is_exhausted(MAX_RETRIEVALS, document_count=10 * MAX_RETRIEVALS, k=10)


def test_every_part_of_a_question_counts() -> None:
    for whole, parts, action, without_ambiguous in [
        (0.7, (-1, -1), "correct", "correct"),
        (-1, (0.7, 0.7), "correct", "correct"),
        (-1, (0.7, -1), "ambiguous", "correct"),
        (0.0, (-1, -1), "ambiguous", "incorrect"),
        (-1, (-1, -1), "incorrect", "incorrect"),
    ]:
        grades = [[whole], *([score] for score in parts)]

        assert choose_action(grades, POPQA, Ablation()) == action
        left_out = Ablation(without_action="ambiguous")
        assert choose_action(grades, POPQA, left_out) == without_ambiguous
