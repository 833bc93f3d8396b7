"""Measures and results against what ten questions make by hand."""

from math import log2

import pytest

from app.extensions.evaluation.calibration import graded, propose
from app.extensions.evaluation.comparison import compare
from app.extensions.evaluation.matching import exact_match, holds, published_match, token_f1, tokens
from app.extensions.evaluation.measures import is_right
from app.extensions.evaluation.report import EvaluationReport
from app.extensions.evaluation.results import results_of, times_of
from app.extensions.evaluation.runner import Answered
from app.extensions.evaluation.statistics import mean, paired_difference
from graphs.types import Thresholds
from tests.app.extensions.evaluation.ten import (
    OTHER,
    SUPPORTED,
    TEN,
    Told,
    answers,
    changed,
    request,
)

BY_HAND = {
    "recall": (5 + 1 + 0) / 7,  # q0…q4 and q6 found their source, q5 did not
    "ndcg": (1 + 1 + 3 / log2(3) + 0 + 1) / 7,  # second place thrice
    "action_right": 6 / 9,  # not q6 (ambiguous), q8 (correct), nor q5: see below
    "needless_search": 1 / 6,
    "missing_search": 1 / 3,
    "contains_gold": 3 / 7,
    "right_abstention": 1 / 2,
    "wrong_abstention": 2 / 7,
    "faithfulness": 4 / 7,
    "context_relevancy": 0.5,
    "answer_relevancy": 0.75,
    "correctness": (3 * 1 + 2 * 0.1) / 7,
    "citation_precision": 4 / 7,
    "citation_recall": 4 / 7,
    "scored_pairs": 10,
}
# q5 has no evidence and is Incorrect: right; so are q7 and the five that are Correct with evidence.
BY_HAND["action_right"] = (5 + 1 + 1) / 9


def figures(told: list[Told]) -> dict[str, float]:
    (variant,) = results_of(request(told), answers(told), {})["variants"]
    means = {name: found["mean"] for name, found in variant["measures"].items()}
    return means | {f"lost at {stage}": many for stage, many in variant["stages"].items()}


def test_the_figures_are_those_reckoned_by_hand() -> None:
    found = figures(TEN)
    assert {name: found[name] for name in BY_HAND} == pytest.approx(BY_HAND, abs=1e-4)
    stages = {name: many for name, many in found.items() if name.startswith("lost")}
    expected = dict.fromkeys(("retrieval", "judge", "reader", "refusal", "not_refused"), 1)
    assert stages == {f"lost at {stage}": many for stage, many in expected.items()}


def test_an_answer_to_what_is_not_covered_is_wrong() -> None:
    pairs = zip(TEN, answers(TEN), strict=True)
    uncovered = {bool(told.answer): it for told, it in pairs if told.answerable is False}
    assert {said: is_right(it.measures) for said, it in uncovered.items()} == {
        True: False,
        False: True,
    }


@pytest.mark.parametrize(
    ("told", "moves"),
    [
        (  # a wrong answer in place of a right one
            changed(0, answer="The lamp burns tallow [1]."),
            {"contains_gold", "token_f1", "correctness", "lost at reader"},
        ),
        (  # the passage that held it is gone
            changed(3, passages=TEN[3].passages[:1]),
            {"recall", "ndcg", "action_right", "needless_search", "missing_search"}
            | {"lost at reader", "lost at retrieval"},
        ),
        (  # a threshold that makes Correct Ambiguous
            changed(2, action="ambiguous"),
            {"action_right", "needless_search"},
        ),
    ],
)
def test_a_change_moves_the_figures_it_should_and_no_other(
    told: list[Told], moves: set[str]
) -> None:
    before, after = figures(TEN), figures(told)
    names = before.keys() | after.keys()
    assert {name for name in names if before.get(name) != after.get(name)} == moves


def test_matching_reads_words_numbers_and_characters() -> None:
    assert tokens("The 1,024 Ünits [2], a 3.5!") == ["1024", "ünits", "3.5"]
    assert holds("It was built in 2012.", ["2012"])
    assert not holds("It was built in 2012.", ["12", "201"])
    assert holds("红塔高九十九米，由石头砌成。", ["九十九米"])
    assert not holds("anything", ["", "…"])
    assert published_match("Built in 2012", ["201"])
    assert exact_match("The Whale-Oil.", ["whale oil"])
    assert token_f1("burns whale oil", ["whale oil"]) == pytest.approx(0.8)
    assert token_f1("红塔", ["白塔"]) == pytest.approx(0.5)


def test_intervals_and_paired_differences() -> None:
    assert mean([None, None]).mean is None
    assert (mean([1.0]).low, mean([1.0]).n) == (None, 1)
    found = mean([0.0, 1.0] * 50)
    assert found.low is not None
    assert found.high is not None
    assert 0.38 < found.low < 0.43 < 0.57 < found.high < 0.62
    assert mean([0.0, 1.0] * 50) == found
    assert paired_difference([1.0, None, 1.0], [0.0, 1.0, 1.0]).mean == 0.5


def test_a_baseline_tells_what_is_worse_beyond_chance() -> None:
    good = [TEN[0]] * 12
    bad = [changed(0, answer="The lamp burns tallow [1].")[0]] * 12
    was, is_now = (results_of(request(told), answers(told), {}) for told in (good, bad))
    found = compare(was, is_now)
    worse = {each.measure for each in found.regressions}
    assert worse == {"contains_gold", "token_f1", "correctness"}
    (gold,) = (each for each in found.measures if each.measure == "contains_gold")
    assert (gold.before, gold.after, gold.difference, gold.n) == (1.0, 0.0, -1.0, 12)
    assert (gold.low, gold.high, gold.turned) == (-1.0, -1.0, "worse")
    assert len(found.turned) == 12
    assert (found.changed[0].before.right, found.changed[0].after.right) == (True, False)
    better = compare(is_now, was)
    assert (better.regressions, len(better.turned)) == ([], 12)
    assert compare(was, was).changed == []


def test_thresholds_are_proposed_with_what_they_are_worth_on_unseen_questions() -> None:
    held = Told("What burns?", ["whale oil"], [("a.md", "whale oil", 0.3, True)])
    lacks = Told("Who?", ["nobody"], [("b.md", OTHER, -0.3, True)])
    told = [held, lacks] * 15
    rows = graded(request(told).questions, answers(told))
    found = propose(rows, Thresholds(upper=0.9, lower=-0.9, strip_floor=-0.5))
    assert found is not None
    assert -0.3 < found.lower <= found.upper <= 0.3
    assert (found.cost, found.unseen_cost, found.present_cost) == (0.0, 0.0, 0.45)
    assert (found.is_better, len(found.changed)) == (True, 30)
    assert propose(rows[:10], Thresholds(0.9, -0.9, -0.5)) is None


def test_parts_of_a_question_count_by_their_own_grades() -> None:
    """Both parts found make it Correct, though the whole question's grade is 0; one does not."""
    lamp = ("a.md", "whale oil", 0.7, True)
    found = Told("What burns, and who sang?", ["whale oil"], [lamp])
    half = Told("What burns, and who sings?", ["nobody"], [lamp])
    told = [found, half] * 15
    given = answers(told)
    for answered, grades in zip(given, [[0.0, 0.5, 0.6], [0.0, 0.7, -0.8]] * 15, strict=True):
        assert answered.outcome is not None
        answered.outcome.best_grades = grades
    rows = graded(request(told).questions, given)
    assert [row.action(0.4, -0.5) for row in rows[:2]] == ["correct", "ambiguous"]
    proposal = propose(rows, Thresholds(upper=0.9, lower=-0.9, strip_floor=-0.5))
    assert proposal is not None
    assert 0.0 < proposal.upper <= 0.5
    assert (proposal.cost, proposal.present_cost) == (0.225, 0.45)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_report_stands_alone_and_takes_no_text_for_markup(language: str) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    told = [Told(hostile, [hostile], [(hostile, hostile, 0.5, True)], hostile, judged=SUPPORTED)]
    told = [*told, *TEN]
    asked = request(told, ("one", "two"))
    failed = Answered(question="q1", variant="two", failure=hostile)
    unjudged = failed.model_copy(update={"question": "q2", "outcome": told[2].outcome()})
    failures = [failed, unjudged]
    both = [*answers(told, "one"), *answers(told, "two")[:1], *failures, *answers(told, "two")[3:]]
    results = results_of(asked, both, {"documents": 3})
    page = EvaluationReport(asked, both, results, times_of(both)).html(language)  # type: ignore[arg-type]
    assert "<img" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "NaN" not in page
    assert "nan" not in page
    assert page.count("<details>") > 20
    assert ("林德女士" in page, "q5" in page) == (True, True)
