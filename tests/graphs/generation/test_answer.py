"""Drafts of one passage: every sentence is cited, and code stays as it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.generation.answer import answering_floor, cited, request_of
from graphs.options import Context
from graphs.state import State
from graphs.text.citations import citations_in
from graphs.types import Action, Bars, Passage, Plan, Strip, Thresholds

PASSAGE = Strip("p#0", "p", "text", "T", "a.md", "internal", (0, 0))


def test_sentences_are_cited_and_code_stays() -> None:
    for said, told in [
        ("```sh\nls\n```\nDone.", "```sh\nls\n```\nDone [1]."),
        ("```sh\nls。\n```\n完成。", "```sh\nls。\n```\n完成[1]。"),
        ("So:\n\n```\na. b\n\nc\n```\n\nEnd.", "So: [1]\n\n```\na. b\n\nc\n```\n\nEnd [1]."),
        ("运行：\n```\nls -l\n```\n然后。看。", "运行：[1]\n```\nls -l\n```\n然后[1]。看[1]。"),
        ("````\n```\na.\n```\n````\nSo.", "````\n```\na.\n```\n````\nSo [1]."),
        ("1. ```sh\nls\n```\n2) Stop.", "1. ```sh\nls\n```\n2) Stop [1]."),
        ("> ```\n> ls\n> ```\n> 完成。", "> ```\n> ls\n> ```\n> 完成[1]。"),
        ("Left open:\n```py\na.\n\nb.", "Left open: [1]\n```py\na.\n\nb."),
        ("没有结束：\n```\n一。\n二。", "没有结束：[1]\n```\n一。\n二。"),
        ("```\nls\n```", "```\nls\n```"),
        ("Run `a. b` or ```c. d``` now. So.", "Run `a. b` or ```c. d``` now [1]. So [1]."),
        ("运行 `甲。乙` 即可。好。", "运行 `甲。乙` 即可[1]。好[1]。"),
        ("`ls -l`", "`ls -l` [1]"),
        ("So.\n\n---\n\n。\nYes.", "So [1].\n\n---\n\n。\nYes [1]."),
        (" 12.\n", "12 [1]."),
    ]:
        assert cited(said) == told


@pytest.mark.parametrize(
    ("lower", "strip_floor", "floor"), [(-0.5, -0.95, -0.5), (0.34, -0.95, 0.0), (0.34, 0.2, 0.2)]
)
def test_a_strip_that_likely_answers_is_never_below_the_floor(
    lower: float, strip_floor: float, floor: float
) -> None:
    plan = Plan(Thresholds(upper=0.55, lower=lower, strip_floor=strip_floor), Bars(0.4, 2.3), "en")
    assert answering_floor(plan) == floor


@pytest.mark.parametrize(("upper", "floor"), [(-0.5, -0.5), (0.55, 0.0)])
@pytest.mark.parametrize("action", [None, "incorrect"])
def test_what_no_graded_passage_stands_behind_must_be_correct_alone(
    upper: float, floor: float, action: Action | None
) -> None:
    plan = Plan(Thresholds(upper=upper, lower=-0.6, strip_floor=-0.9), Bars(0.4, 2.3), "en")
    graded = [Passage("p", "", "", "", relevance=-0.8)] if action else []
    state = State(question="How?", action=action, documents=graded)
    assert request_of(state, [PASSAGE], plan, Context()).floor == floor


PIECES = [
    "Run it. ",
    "好。",
    "a ",
    "\n",
    "`x. y`",
    "```\nls. b\n```\n",
    "\n```sh\n",
    "`",
    "```",
    "1. ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_marker_stands_alone_and_none_is_hidden_in_code(pieces: list[str]) -> None:
    answer = cited("".join(pieces))
    marked = [line.split("[1]") for line in answer.splitlines() if "[1]" in line]

    assert all(any(map(str.isalnum, line[0])) for line in marked)
    assert bool(citations_in(answer, [PASSAGE])) == bool(marked)
