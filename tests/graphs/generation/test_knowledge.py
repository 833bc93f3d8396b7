"""What is answered from, and its order: golden check of sides, and what holds of any order."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.grading.strips import internal_knowledge, repacked
from graphs.options import Ablation, Repack
from graphs.state import Answer
from graphs.text.citations import without_markers
from graphs.types import Origin, Strip
from tests.fakes import FakeChat, passage
from tests.graphs.languages import EN, ZH, World

ORDERS = get_args(Repack)


def strip(number: int, score: float, origin: Origin = "internal") -> Strip:
    place = (0, number)
    return Strip(f"{origin}{number}", "p", f"{number}", "T", "a.md", origin, place, relevance=score)


SIX = [strip(number, 1 - number / 10) for number in (4, 1, 6, 2, 5, 3)]


def test_six_strips_by_their_ranks() -> None:
    for order, expected in [
        ("document", "416253"),
        ("forward", "123456"),
        ("reverse", "654321"),
        ("sides", "135642"),
    ]:
        assert "".join(item.text for item in repacked(SIX, order)) == expected


def test_of_equal_scores_local_and_earlier_ones_are_better() -> None:
    tied = [strip(1, 0.5, "web"), strip(2, 0.5), strip(1, 0.5)]

    assert [item.id for item in repacked(tied, "forward")] == ["internal1", "internal2", "web1"]
    assert [item.id for item in repacked(tied, "reverse")] == ["web1", "internal2", "internal1"]


@given(st.lists(st.floats(-1, 1), max_size=12), st.sampled_from(ORDERS))
def test_an_order_is_a_permutation_and_doing_it_twice_changes_nothing(
    scores: list[float], order: Repack
) -> None:
    strips = [strip(number, score) for number, score in enumerate(scores)]
    once = repacked(strips, order)

    assert sorted(item.id for item in once) == sorted(item.id for item in strips)
    assert repacked(once, order) == once
    if scores and order in ("forward", "sides"):
        assert once[0].score == max(scores)
    if scores and order == "reverse":
        assert once[-1].score == max(scores)


@pytest.mark.parametrize(("workflow", "world"), [("rag", EN), ("crag", ZH), ("self_crag", EN)])
async def test_numbers_follow_the_order_shown(workflow: str, world: World) -> None:
    chat = FakeChat(chunks=["x [2]"])
    parts = world.parts(world.full, world.half, chat=chat)
    trace = await parts.ask(
        workflow,
        web="never",
        ablation=Ablation(only_action="correct"),
        retrieval="always",
        rerank="evaluator",
        repack="reverse",
        max_critic=0,
    )

    said = next(text for n in range(len(chat.asked)) if "[2]" in (text := chat.prompt(n)))
    assert said.index(f"{world.half}") < said.index(f"{world.full}")
    assert [(c.n, c.text) for c in trace.output["citations"]] == [(2, world.full)]


async def test_the_order_does_not_change_what_is_quoted() -> None:
    said = set()
    for order in ORDERS:
        parts = EN.parts(EN.half, EN.full, offline=True)
        trace = await parts.ask(repack=order)
        assert [c.text for c in trace.output["citations"]][:1]
        said.add(without_markers(trace.answer))
    assert said == {EN.full}


def test_ungraded_passages_are_knowledge_as_they_are_and_incorrect_ones_are_none() -> None:
    whole = [passage("One. Two.", n) for n in range(3)]

    assert [s.kept for s in internal_knowledge({"documents": whole}, 2)] == [True, True, False]
    refined = [strip(1, 0.5)]
    graded: Answer = {"documents": whole, "internal_strips": refined, "action": "correct"}
    assert internal_knowledge(graded, 2) == refined
    assert internal_knowledge({**graded, "action": "incorrect"}, 2) == []
