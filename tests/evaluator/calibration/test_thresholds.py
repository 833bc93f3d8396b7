import random
from dataclasses import replace

import numpy as np
import pytest

from evaluator.calibration.thresholds import (
    Aims,
    GradedQuestions,
    action_figures,
    calibrate,
    report,
    sweep,
    trade_offs,
)
from evaluator.data.calibration_questions import LabelledQuestion, build_questions
from evaluator.data.records import Record
from evaluator.errors import DataError


def questions(count: int, spread: float = 0.3) -> list[LabelledQuestion]:
    """Scores are spelt in the passages: answering ones lie high, others low, some between."""
    dice = random.Random(0)
    made = []
    for number in range(count):
        answered = number % 2 == 0
        best = dice.gauss(0.6, spread) if answered else dice.gauss(-0.6, spread)
        asked = "多长？" if number % 4 < 2 else "How long?"
        strips = [str(dice.uniform(-0.5, 1))] if answered else []
        others = [str(dice.uniform(-1, 0.2))]
        labels = [answered, False]
        made.append(LabelledQuestion(asked, [str(best), "-3"], labels, strips, others))
    return made


def perfect(count: int, asked: str = "How?") -> list[LabelledQuestion]:
    return [
        LabelledQuestion(asked, ["0.9" if n % 2 else "-0.9"], [bool(n % 2)]) for n in range(count)
    ]


def spelt(pairs: object) -> list[float]:
    assert isinstance(pairs, list)
    return [float(passage) for _, passage in pairs]


def graded(answered: list[float], unanswered: list[float]) -> GradedQuestions:
    flags = [True] * len(answered) + [False] * len(unanswered)
    return GradedQuestions(np.array(answered + unanswered), np.array(flags))


def test_both_languages_reach_the_accuracy_their_scores_allow() -> None:
    found = calibrate(questions(400, spread=0.5), spelt).thresholds
    assert -0.3 < found.lower < found.upper < 0.3
    for language in ("en", "zh"):
        assert found.figures[f"{language}_questions"] == 200
        assert found.figures[f"{language}_accuracy"] > 0.8
    low, high = found.figures["accuracy_low"], found.figures["accuracy_high"]
    assert low < found.figures["accuracy_unseen"] < high


def test_perfect_scores_leave_nothing_ambiguous() -> None:
    found = calibrate(perfect(20), spelt).thresholds
    assert found.lower == found.upper == 0
    assert found.figures["en_accuracy"] == 1
    assert found.figures["en_ambiguous_share"] == 0


def test_the_figures_of_one_pair_of_thresholds() -> None:
    figures = action_figures(graded([0.9, 0.8, 0.1, -0.9], [0.7, 0.0, -0.8, -0.8]), 0.5, -0.5)
    assert figures["correct_precision"] == figures["incorrect_precision"] == pytest.approx(2 / 3)
    assert figures["correct_recall"] == figures["incorrect_recall"] == 0.5
    assert figures["ambiguous_share"] == 0.25
    assert figures["ambiguous_answered"] == 0.5
    assert figures["accuracy"] == 0.5
    assert figures["web_searches"] == 5 / 8
    assert figures["needless_searches"] == 2 / 8


@pytest.mark.parametrize("cost", [0.1, 0.3, 0.45, 0.8])
def test_the_sweep_finds_what_trying_every_pair_finds(cost: float) -> None:
    dice = np.random.default_rng(3)
    outcomes = {
        name: graded(list(dice.normal(0.4, 0.5, 9)), list(dice.normal(-0.2, 0.5, 12)))
        for name in ("en", "zh")
    }

    def cost_of(upper: float, lower: float) -> float:
        total = 0.0
        for each in outcomes.values():
            correct, incorrect = each.best >= upper, each.best < lower
            wrong = (correct & ~each.answered) | (incorrect & each.answered)
            total += wrong.mean() + cost * (~correct & ~incorrect).mean()
        return total

    upper, lower = sweep(outcomes, Aims(ambiguous=cost))
    cuts = np.linspace(-2, 2, 81)
    least = min(cost_of(u, low) for u in cuts for low in cuts if low <= u)
    assert cost_of(upper[0], lower[0]) <= least + 1e-9


def test_dearer_ambiguous_leaves_less_of_it_and_more_right_actions() -> None:
    outcomes = calibrate(questions(400, spread=0.6), spelt).outcomes
    rows = trade_offs(outcomes, Aims())
    shares = [row.figures["ambiguous_share"] for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.3
    assert shares[-1] < 0.05
    assert rows[-1].figures["accuracy"] > rows[0].figures["accuracy"]
    assert rows[0].figures["correct_precision"] > rows[-1].figures["correct_precision"]


def test_a_dear_wrong_incorrect_lowers_the_lower_threshold() -> None:
    made = questions(400, spread=0.6)
    dear = Aims(wrong_incorrect=4)
    even, careful = (calibrate(made, spelt, aims).thresholds for aims in (Aims(), dear))
    assert careful.lower < even.lower - 0.1
    assert careful.figures["en_incorrect_precision"] > even.figures["en_incorrect_precision"]


def test_an_asked_precision_is_kept_in_both_languages() -> None:
    found = calibrate(
        questions(400, spread=0.6), spelt, Aims(correct_precision=0.95, incorrect_precision=0.95)
    )
    for language in ("en", "zh"):
        for action in ("correct", "incorrect"):
            assert found.thresholds.figures[f"{language}_{action}_precision"] >= 0.95


def test_a_precision_asked_of_incorrect_alone_leaves_upper_to_the_costs() -> None:
    made = questions(400, spread=0.6)
    free, both, one = (
        calibrate(
            made, spelt, Aims(correct_precision=least[0], incorrect_precision=least[1])
        ).thresholds
        for least in ((0.0, 0.0), (0.99, 0.99), (0.0, 0.99))
    )
    assert one.lower == pytest.approx(both.lower, abs=0.05)
    assert one.lower < free.lower
    assert abs(one.upper - free.upper) < abs(both.upper - free.upper)


def test_a_precision_out_of_reach_makes_the_action_never_occur() -> None:
    upside_down = [replace(q, labels=[not q.labels[0]]) for q in perfect(20)]
    found = calibrate(
        upside_down, spelt, Aims(correct_precision=0.95, incorrect_precision=0.95)
    ).thresholds
    assert found.figures["en_ambiguous_share"] == 1


def test_the_strip_floor_keeps_its_share_and_drops_what_lies_below() -> None:
    found = calibrate(questions(400), spelt)
    figures = found.thresholds.figures
    assert -0.5 < found.thresholds.strip_floor < -0.35
    for language in ("en", "zh"):
        assert figures[f"{language}_strips_kept"] >= 0.95
        assert 0.3 < figures[f"{language}_other_strips_dropped"] < 0.6
    assert calibrate(questions(400), spelt, Aims(strips_kept=0.5)).thresholds.strip_floor > 0


def test_passages_stand_for_strips_where_there_are_none() -> None:
    found = calibrate(perfect(40), spelt).thresholds
    assert found.strip_floor == 0.9
    assert found.figures["en_other_strips_dropped"] == 1


def test_one_kind_of_question_is_refused() -> None:
    answered = [q for q in perfect(20) if q.answered]
    with pytest.raises(DataError, match="both answered and unanswered"):
        calibrate(answered, spelt)
    other = [q for q in perfect(20, "多长？") if not q.answered]
    with pytest.raises(DataError, match="no language has both"):
        calibrate(answered + other, spelt)


def test_a_language_of_one_kind_decides_nothing() -> None:
    alone = calibrate(perfect(20), spelt)
    chinese = [LabelledQuestion("多长？", ["0.2"], [False]) for _ in range(20)]
    both = calibrate(perfect(20) + chinese, spelt)
    assert both.thresholds.upper == alone.thresholds.upper
    assert both.thresholds.figures["zh_accuracy"] == 0
    assert "zh has one kind of question only" in report(both)


def test_equal_seeds_give_equal_thresholds() -> None:
    made = questions(100, spread=0.6)
    first, again = (calibrate(made, spelt).thresholds for _ in range(2))
    assert first == again
    assert calibrate(made, spelt, Aims(seed=2)).thresholds.upper != first.upper


def test_costs_below_nothing_are_refused() -> None:
    with pytest.raises(DataError, match="above 0"):
        Aims(ambiguous=0)


def test_the_report_tells_every_trade_off_and_what_is_doubtful() -> None:
    found = calibrate(questions(60, spread=0.6), spelt)
    text = report(found)
    for words in ("needless", "other strips dropped", "en has fewer than 100 questions"):
        assert words in text
    for row in found.trade_offs:
        assert f"  {row.ambiguous_cost:.2f} {row.upper:8.4f}" in text


def river(number: int) -> Record:
    return Record(
        "made", "en", f"How long is the river Ab{number}?", (f"{number}77 km",), True,
        f"Ab{number}", f"The river Ab{number} is {number}77 km long. Hills stand around it, and "
        + "many people come to walk there in summer, when the nights are warm. " * 4,
    )  # fmt: skip


def test_built_questions_lose_their_gold_every_second_time() -> None:
    built = build_questions([river(n) for n in range(30)], seed=1, max_questions=60)
    answered = [question for question in built if question.answered]
    assert 10 <= len(answered) <= 15
    assert len(built) - len(answered) == 15
    assert all(len(question.passages) <= 10 for question in built)


def test_half_of_each_source_lose_their_gold_under_titles() -> None:
    rows = [replace(river(n), source=("made", "other")[n % 2]) for n in range(40)]
    built = build_questions(rows, seed=1, max_questions=80)
    numbers = [int(question.question.split("Ab")[1].rstrip("?")) for question in built]
    for source in (0, 1):
        answered = [q.answered for q, n in zip(built, numbers, strict=True) if n % 2 == source]
        assert 0.25 < sum(answered) / len(answered) < 0.75
    assert all(text.startswith("Ab") and " // " in text for q in built for text in q.passages)


def test_built_questions_carry_strips_of_both_kinds() -> None:
    for question in build_questions([river(n) for n in range(30)], seed=1, max_questions=60):
        assert all("77 km" in strip for strip in question.strips)
        assert len(question.strips) == 1
        assert question.other_strips
        number = question.question.split("Ab")[1].rstrip("?")
        assert all(f"{number}77 km" not in strip.split() for strip in question.other_strips)


@pytest.mark.parametrize(
    ("question", "passage"), [("How long?", "It is 9 km long."), ("多长？", "长九公里。")]
)
def test_labelled_rows_without_answers_are_told_of_questions(question: str, passage: str) -> None:
    rows = [Record("made", "zh", question, (), n % 2 == 0, "", f"{passage}{n}") for n in range(9)]
    with pytest.raises(DataError, match=r"None of the 9 held-back records .* --questions"):
        build_questions(rows, seed=1, max_questions=60)
