"""Every switch of Context, in the running graph (CRAG, tables 2, 3 and 11)."""

from typing import Any

import pytest

from graphs.options import Ablation
from tests.fakes import FakeChat
from tests.graphs.languages import EN
from tests.graphs.workflows import test_crag

LOCAL, WEB, NEITHER = set(test_crag.LOCAL), set(test_crag.WEB), {*test_crag.BEGINNING, "generate"}


@pytest.mark.parametrize(
    ("text", "options", "action", "nodes"),
    [
        (EN.full, {"ablation": Ablation(without_action="correct")}, "ambiguous", LOCAL | WEB),
        (EN.off, {"ablation": Ablation(without_action="incorrect")}, "ambiguous", LOCAL | WEB),
        (EN.half, {"ablation": Ablation(without_action="ambiguous")}, "incorrect", WEB),
        (EN.off, {"ablation": Ablation(only_action="correct")}, "correct", LOCAL),
        (EN.full, {"ablation": Ablation(only_action="incorrect")}, "incorrect", WEB),
        (EN.full, {"web": "always"}, "correct", LOCAL | WEB),
        (EN.half, {"web": "never"}, "ambiguous", LOCAL),
        (EN.off, {"web": "never"}, "incorrect", NEITHER),
        (EN.half, {"max_web_searches": 0}, "ambiguous", LOCAL),
        (EN.half, {"upper": -0.2}, "correct", LOCAL),
        (EN.half, {"lower": 0.0}, "incorrect", WEB),
    ],
)
async def test_the_action_and_its_path(
    text: str, options: dict[str, Any], action: str, nodes: set[str]
) -> None:
    trace = await EN.parts(text).ask(**options)

    assert trace.output["action"] == action
    assert sorted(trace.nodes) == sorted(nodes), "each node of the path, once"
    assert trace.output["degraded"] == []


async def test_without_refinement_whole_passages_are_used_unscored() -> None:
    parts = EN.parts(EN.full, EN.off)
    trace = await parts.ask(ablation=Ablation(refinement=False))

    assert [strip.kept for strip in trace.output["internal_strips"]] == [True, True]
    assert [len(call) for call in parts.evaluator.calls] == [2], "graded once"


async def test_without_rewriting_the_question_itself_is_searched() -> None:
    parts = EN.parts(EN.off, chat=FakeChat(chunks=["a [1]"], keywords="never asked"))
    trace = await parts.ask(ablation=Ablation(rewriting=False))

    assert parts.web.queries == [EN.question]
    assert trace.output["rewritten_query"] is None
    assert trace.output["usage"].llm_calls == 1


async def test_without_selection_every_paragraph_is_knowledge() -> None:
    chat = FakeChat(chunks=["a [1]"])
    parts = EN.parts(EN.off, chat=chat)
    trace = await parts.ask(ablation=Ablation(selection=False))

    assert [strip.kept for strip in trace.output["web_strips"]] == [True, True]
    assert EN.noise in chat.prompt()
    assert trace.output["usage"].scored_pairs == 1


async def test_a_strip_mode_cuts_as_it_says() -> None:
    sentence = "The Bergen paper mill did open when {} came along."
    text = " ".join(sentence.format(word) for word in range(7))
    trace = await EN.parts(text).ask(strip_mode="groups")

    assert len(trace.output["internal_strips"]) == 3


async def test_bounds_reach_the_ports() -> None:
    parts = EN.parts(EN.off)
    trace = await parts.ask(retrieve_k=3, search="bm25", alpha=2.0, web_pages=1, top_strips=1)

    assert parts.retriever.asked == [(EN.question, 3)]
    [search] = parts.retriever.searches
    assert search is not None
    assert (search.mode, search.alpha) == ("bm25", 2.0)
    assert len(trace.output["web_pages"]) == 1


async def test_top_strips_bound_each_origin() -> None:
    sentence = "The Bergen paper mill did open when {} came along with its train."
    text = " ".join(sentence.format(word) for word in range(40))
    trace = await EN.parts(text).ask(top_strips=2)

    kept = [strip for strip in trace.output["internal_strips"] if strip.kept]
    assert len(trace.output["internal_strips"]) > len(kept) == 2
