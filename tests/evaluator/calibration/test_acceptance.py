"""The critic's bars: both kept where each is needed, and not chosen where nothing tells them."""

from collections.abc import Sequence

import pytest

from evaluator.calibration.acceptance import (
    AnswerBars,
    choose_bars,
    choose_retrieval,
    judged,
    report,
)
from evaluator.data.records import JudgementRow
from evaluator.data.synthetic.build import Case
from evaluator.schema import Task

SCORES = {
    "short answer": (0.8, 0.6),
    "statement": (0.9, 0.9),
    "neighbour sentence": (0.95, -0.5),  # said by the passage, and no answer
    "wrong value": (0.4, 0.8),  # an answer, and not said by the passage
}
"""Support and utility by the kind of answer, as an evaluator scores them."""


def cases(kinds: Sequence[str]) -> list[Case]:
    return [
        Case(f"question {number}?", kind, "A passage.", kind, language, "group")
        for language in ("en", "zh")
        for kind in kinds
        for number in range(3)
    ]


def scores(task: Task, pairs: Sequence[tuple[str, str]]) -> list[float]:
    place = ("support", "utility").index(task)
    said = (first.rpartition(" ")[2] if place == 0 else second for first, second in pairs)
    by_end = {kind.split()[-1]: found for kind, found in SCORES.items()}
    return [by_end[text.split()[-1]][place] for text in said]


def test_right_answers_pass_and_each_bar_stops_what_the_other_lets_through() -> None:
    found = judged(cases(list(SCORES)), scores)
    bars = choose_bars(found)
    # Grades above 2 and supports up to .8 tell all apart: the lowest one, and the strictest.
    assert bars == AnswerBars(support=0.8, utility=2.1)
    assert found.accepted(bars) == {
        (language, kind): float(kind in {"short answer", "statement"})
        for language in ("en", "zh")
        for kind in SCORES
    }
    assert "zh wrong, wrong value: 0.000" in report(found, bars)


@pytest.mark.parametrize("kinds", [[], ["statement"], ["wrong value"]])
def test_without_right_or_without_wrong_answers_there_are_no_bars(kinds: list[str]) -> None:
    assert choose_bars(judged(cases(kinds), scores)) is None


def test_nearly_all_questions_of_either_language_that_need_it_are_looked_up() -> None:
    label = {True: "[Retrieval]", False: "[No Retrieval]"}
    shares = {("en", n): n / 100 for n in range(1, 101)} | {("zh", n): n / 200 for n in range(41)}
    rows = [
        JudgementRow("retrieval", f"{language} {n}", "", label[language == "en" or n > 0],
                     language, "own", "fact", "held")
        for language, n in shares
    ]  # fmt: skip

    def scores(_task: Task, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [shares[text[:2], int(text[3:])] for text, _ in pairs]

    bar = choose_retrieval(rows, scores)
    # Of the Chinese questions that need it, .005 to .2, one in forty may stand below.
    assert bar == 0.0
    assert choose_retrieval([row for row in rows if row.language == "en"], scores) == 0.03
