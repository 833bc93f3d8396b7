"""The draft a run goes on with, and what a stopped run answers."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.generation.answer import EXTRACTIVE
from graphs.reflection.scores import choose, early_answer, selected
from graphs.state import Answer, Context, Question
from graphs.types import Draft, Judgement, Language, Strip
from prompts import prompt
from tests.fakes import passage


def strip(n: int, text: str = "text", **fields: Any) -> Strip:
    return Strip(f"p{n}#0", f"p{n}", text, "Title", "a.md", "internal", (n, 0), **fields)


def drafted(answer: str, score: float = 0.0, n: int = 1) -> Draft:
    return Draft(answer, (strip(n),), n, generator="fake", critique_score=score)


ANSWERS = st.sampled_from(["yes", "Yes.", "Yes [1].", "no", "是", "是。"])
drafts_of_answers = st.lists(st.tuples(ANSWERS, st.floats(-1, 3)), min_size=1, max_size=7).map(
    lambda pairs: [drafted(*pair, n) for n, pair in enumerate(pairs, start=1)]
)


@given(drafts_of_answers.flatmap(lambda d: st.tuples(st.just(d), st.permutations(d))))
def test_the_order_of_the_drafts_decides_nothing_and_the_best_score_wins(
    both: tuple[list[Draft], list[Draft]],
) -> None:
    drafts, shuffled = both

    assert choose(drafts, closed=True) == choose(shuffled, closed=True)
    assert choose(drafts, closed=False) == choose(shuffled, closed=False)
    assert choose(drafts, closed=False).critique_score == max(d.critique_score for d in drafts)


def test_a_closed_question_sums_the_votes_of_equal_answers() -> None:
    drafts = [drafted("True [1].", 0.6, 1), drafted("false", 1.0, 2), drafted("true [2]", 0.7, 3)]

    assert choose(drafts, closed=False).n == 2
    assert choose(drafts, closed=True).n == 3, "1.3 for true, by its best draft"


@pytest.mark.parametrize(("closed", "yes", "no"), [(True, "yes", "no"), (False, "是", "否")])
def test_a_draft_that_nobody_judged_stands_behind_one_judged_badly(
    closed: bool, yes: str, no: str
) -> None:
    judged = replace(drafted(no, -0.5, 2), judgement=Judgement(0.0, 0.0, -1.0))

    assert choose([drafted(yes, 0.0, 1), judged, drafted(yes, 0.0, 3)], closed) == judged
    assert choose([drafted(yes, 0.0, 1), drafted(no, 0.0, 2)], closed).answer in (yes, no)


def test_the_chosen_draft_is_the_answer_with_its_citations() -> None:
    drafts = [drafted("no [1].", 0.5, 1), drafted("yes [1].", 1.5, 2)]
    update = selected(drafts, Context())

    assert [draft.chosen for draft in update["candidates"]] == [False, True]
    assert update["draft"] == update["candidates"][1]
    assert (update["answer"], update["generator"]) == ("yes [1].", "fake")
    assert [citation.strip_id for citation in update["citations"]] == ["p2#0"]
    assert update["stopped_by"] == "answered"
    quoted = [replace(draft, budget_exhausted=True) for draft in drafts]
    assert selected(quoted, Context())["stopped_by"] == "budget"


QUESTION: Question = {"question": "How tall is it?"}
TALL = "The tower is 87 metres tall."


def stopped(state: Answer, *drafts: Draft, is_writing: bool = False) -> Answer:
    return early_answer(state, QUESTION, drafts, Context(), "deadline", is_writing=is_writing)


def test_a_stopped_run_answers_with_what_it_has() -> None:
    kept, other = strip(1, TALL, relevance=0.9, kept=True), strip(2, "Cats sleep all day.")

    assert stopped({"answer": "x"}, drafted("y")) == {"stopped_by": "deadline"}
    best = stopped({"internal_strips": [kept]}, drafted("y [1].", 0.1), drafted("z [1].", 0.2, 2))
    assert (best["answer"], best["stopped_by"]) == ("z [1].", "deadline")
    opening = stopped({"internal_strips": [kept, other], "web_strips": []})
    assert (opening["answer"], opening["generator"]) == (f"{TALL[:-1]} [1].", EXTRACTIVE)
    assert [citation.strip_id for citation in opening["citations"]] == [kept.id]


def test_ungraded_passages_count_once_an_answer_is_written() -> None:
    state: Answer = {"documents": [passage(TALL)]}

    assert stopped(state)["answer"] == prompt("deadline", "en").render()
    written = stopped(state, is_writing=True)
    assert written["answer"] == f"{TALL[:-1]} [1]."
    assert [strip.kept for strip in written["internal_strips"]] == [True]
    found_wanting = stopped({**state, "action": "incorrect"}, is_writing=True)
    assert found_wanting["citations"] == []


@pytest.mark.parametrize(("question", "language"), [("How tall is it?", "en"), ("它多高？", "zh")])
def test_a_run_stopped_with_nothing_says_why_in_its_language(
    question: str, language: Language
) -> None:
    answer = early_answer({}, {"question": question}, [], Context(), "cancelled", is_writing=True)

    assert answer == {
        "answer": prompt("cancelled", language).render(),
        "citations": [],
        "stopped_by": "cancelled",
    }
