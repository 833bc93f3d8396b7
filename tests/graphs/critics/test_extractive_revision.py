"""Revision without a language model: weak sentences go, sentences for open parts come."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.errors import EvaluatorFailed
from graphs.generation.extractive import Sentence
from graphs.nodes.revise import (
    MAX_ADDED,
    MAX_SEARCHED,
    quoted_in,
    recomposed,
    revise_extractively,
    strips_for,
    unused,
)
from graphs.text.citations import citations_in, cited_numbers
from graphs.types import Draft, Judgement, Strip
from tests.fakes import FakeEvaluator


def strip(text: str, n: int = 0, score: float = 0.0) -> Strip:
    return Strip(f"p{n}#0", f"p{n}", text, "", "a.md", "internal", (n, 0), score)


TALL = strip("The tower is 87 metres tall.", 0)
BUILT = strip("Masons built the tower in 1852. Cats sleep.", 1)
HOCH, GEBAUT = strip("红塔高八十七米。", 2), strip("石匠建造了红塔。猫睡觉。", 3)


async def test_weak_sentences_go_and_the_best_for_each_open_part_comes() -> None:
    draft = Draft("The tower is 87 metres tall [1]. Cats bark [1].", (TALL,))
    judgement = Judgement(weak=("Cats bark.",), uncovered=("who built the tower",))
    revised, usage = await revise_extractively(draft, judgement, [BUILT], FakeEvaluator())

    assert revised.answer == (
        "The tower is 87 metres tall [1]. Masons built the tower in 1852 [2]."
    )
    assert revised.knowledge == (TALL, BUILT)
    assert usage.scored_pairs == 2, "fragments are no sentences"


async def test_a_chinese_draft_is_requoted_alike() -> None:
    draft = Draft("红塔高八十七米[1]。", (HOCH,))
    judgement = Judgement(uncovered=("石匠建造了什么",))
    revised, _ = await revise_extractively(draft, judgement, [GEBAUT], FakeEvaluator())

    assert revised.answer == "红塔高八十七米[1]。石匠建造了红塔[2]。"


async def test_knowledge_that_nothing_cites_any_more_is_left_out() -> None:
    draft = Draft("Cats bark [1]. Masons built the tower in 1852 [2].", (TALL, BUILT))
    revised, _ = await revise_extractively(
        draft, Judgement(weak=("Cats bark.",)), [], FakeEvaluator()
    )

    assert revised.answer == "Masons built the tower in 1852 [1]."
    assert [c.strip_id for c in citations_in(revised.answer, revised.knowledge)] == [BUILT.id]


async def test_nothing_comes_for_a_part_that_nothing_answers() -> None:
    draft = Draft("The tower is 87 metres tall [1].", (TALL,))
    open_part = Judgement(uncovered=("why do fish swim",))
    revised, _ = await revise_extractively(draft, open_part, [BUILT], FakeEvaluator())

    assert revised.answer_body == draft.answer
    assert revised.answer.endswith("Not found in the documents: why do fish swim.")


async def test_where_all_is_weak_nothing_is_left() -> None:
    draft = Draft("Cats bark [1].", (TALL,))
    weak = Judgement(weak=("Cats bark.",))

    assert (await revise_extractively(draft, weak, [], FakeEvaluator()))[0].answer == ""


async def test_a_weak_sentence_does_not_come_back_for_an_open_part() -> None:
    draft = Draft("The tower is 87 metres tall [1].", (TALL,))
    judgement = Judgement(weak=(TALL.text,), uncovered=("the tower is tall",))

    assert (await revise_extractively(draft, judgement, [], FakeEvaluator()))[0].answer == ""


async def test_strips_that_answer_an_open_part_come_with_that_score() -> None:
    pool = [strip("Cats sleep."), BUILT, strip("Masons sang.", 5)]
    found, usage = await strips_for(["masons built the tower"], pool, FakeEvaluator(), floor=-0.4)

    assert [(s.id, s.kept) for s in found] == [(BUILT.id, True)]
    assert found[0].score > 0
    assert usage.scored_pairs == 3


async def test_few_come_for_a_part_and_no_more_are_looked_through_than_bounded() -> None:
    pool = [strip(f"tower number {n}", n, score=n / 1000) for n in range(MAX_SEARCHED + 20)]
    evaluator = FakeEvaluator()
    found, usage = await strips_for(["tower", "number"], pool, evaluator, floor=-1)

    assert len(found) == MAX_ADDED, "the same ones answer both parts best"
    assert usage.scored_pairs == 2 * MAX_SEARCHED
    assert min(s.score for s in found) == 1
    looked = {text for _, text in evaluator.calls[0]}
    assert "tower number 0" not in looked, "those scored best first"


async def test_what_could_not_be_scored_does_not_come() -> None:
    evaluator = FakeEvaluator(known={BUILT.text: None})

    assert (await strips_for(["tower"], [BUILT], evaluator, floor=-1))[0] == []


async def test_nothing_is_asked_where_there_is_nothing_to_ask() -> None:
    for parts in [[], ["who built the tower"]]:
        evaluator = FakeEvaluator(fails_from_call=1)
        pool: list[Strip] = [] if parts else [BUILT]
        found, usage = await strips_for(parts, pool, evaluator, floor=0)

        assert (found, usage.scored_pairs, evaluator.calls) == ([], 0, [])


async def test_a_failing_evaluator_is_told() -> None:
    draft = Draft("It is so [1].", (TALL,))
    with pytest.raises(EvaluatorFailed):
        await strips_for(["why"], [BUILT], FakeEvaluator(fails_from_call=1), floor=0)
    with pytest.raises(EvaluatorFailed):
        await revise_extractively(
            draft, Judgement(uncovered=("why",)), [], FakeEvaluator(fails_from_call=1)
        )


def test_unused_strips_are_new_by_place_and_by_text() -> None:
    draft = Draft("x [1].", (TALL,))
    same_place = replace(TALL, text="Other words.")
    same_text = replace(TALL, id="p9#0", text="the tower is 87 metres  tall")

    assert unused(draft, [same_place, same_text, BUILT]) == [BUILT]


def test_sentences_without_a_known_marker_were_not_quoted() -> None:
    draft = Draft("One [1]. Two. Three [9]. Four [2][1].", (TALL, BUILT))

    assert quoted_in(draft) == [Sentence(1, "One."), Sentence(2, "Four.")]


@given(st.lists(st.builds(Sentence, st.integers(1, 4), st.sampled_from(["A b c.", "是。", "D"]))))
def test_every_marker_of_the_answer_is_a_strip_of_its_knowledge(chosen: list[Sentence]) -> None:
    knowledge = [strip(f"text {n}", n) for n in range(4)]
    draft = recomposed(chosen, knowledge)

    assert cited_numbers(draft.answer) == list(range(1, len(draft.knowledge) + 1))
    assert all(draft.answer.count(text) <= 1 for text in ("A b c", "是", "D"))
