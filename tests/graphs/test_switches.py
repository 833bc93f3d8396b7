"""Every switch of Context, in the running graph (CRAG, tables 2, 3 and 11)."""

from typing import Any

import pytest
from pydantic import ValidationError

from graphs.options import Ablation
from graphs.state import Context
from graphs.types import Thresholds
from tests.fakes import FakeChat
from tests.graphs.languages import EN, World, both_languages
from tests.graphs.traced import traced

LOCAL = {"retrieve", "grade", "refine", "generate"}
WEB = {"retrieve", "grade", "rewrite_query", "search_web", "select_web_strips", "generate"}
NEITHER = {"retrieve", "grade", "generate"}


@pytest.mark.parametrize(
    ("text", "options", "action", "nodes"),
    [
        (EN.full, {"without_action": "correct"}, "ambiguous", LOCAL | WEB),
        (EN.half, {"without_action": "correct"}, "ambiguous", LOCAL | WEB),
        (EN.off, {"without_action": "correct"}, "incorrect", WEB),
        (EN.full, {"without_action": "incorrect"}, "correct", LOCAL),
        (EN.off, {"without_action": "incorrect"}, "ambiguous", LOCAL | WEB),
        (EN.full, {"without_action": "ambiguous"}, "correct", LOCAL),
        (EN.half, {"without_action": "ambiguous"}, "incorrect", WEB),
        (EN.off, {"only_action": "correct"}, "correct", LOCAL),
        (EN.full, {"only_action": "incorrect"}, "incorrect", WEB),
        (EN.full, {"only_action": "ambiguous"}, "ambiguous", LOCAL | WEB),
        (EN.full, {"web": "always"}, "correct", LOCAL | WEB),
        (EN.off, {"web": "always"}, "incorrect", WEB),
        (EN.half, {"web": "never"}, "ambiguous", LOCAL),
        (EN.off, {"web": "never"}, "incorrect", NEITHER),
        (EN.half, {"max_web_searches": 0}, "ambiguous", LOCAL),
        (EN.full, {"web": "always", "max_web_searches": 0}, "correct", LOCAL),
        (EN.half, {"upper": -0.2}, "correct", LOCAL),
        (EN.half, {"lower": 0.0}, "incorrect", WEB),
    ],
)
async def test_the_action_and_its_path(
    text: str, options: dict[str, Any], action: str, nodes: set[str]
) -> None:
    trace = await traced(EN.parts(text).services, EN.question, **options)

    assert trace.output["action"] == action
    assert sorted(trace.nodes) == sorted(nodes), "each node of the path, once"
    assert trace.output["degraded"] == []


@both_languages
async def test_web_never_abstains_and_is_not_degraded(world: World) -> None:
    trace = await traced(world.parts(world.off).services, world.question, web="never")

    assert (trace.answer, trace.output["stopped_by"]) == (world.unknown, "no_evidence")
    assert (trace.output["degraded"], trace.output["citations"]) == ([], [])


@both_languages
async def test_web_always_joins_under_correct(world: World) -> None:
    chat = FakeChat(chunks=["a [1][2]"])
    trace = await traced(world.parts(world.full, chat=chat).services, world.question, web="always")

    assert [citation.origin for citation in trace.output["citations"]] == ["internal", "web"]


async def test_without_refinement_whole_passages_are_used_unscored() -> None:
    parts = EN.parts(EN.full, EN.off)
    trace = await traced(parts.services, EN.question, ablation=Ablation(refinement=False))

    assert [strip.kept for strip in trace.output["internal_strips"]] == [True, True]
    assert [len(call) for call in parts.evaluator.calls] == [2, 2], "graded, then quoted"


async def test_without_rewriting_the_question_itself_is_searched() -> None:
    parts = EN.parts(EN.off, chat=FakeChat(chunks=["a [1]"], keywords="never asked"))
    trace = await traced(parts.services, EN.question, ablation=Ablation(rewriting=False))

    assert parts.web.queries == [EN.question]
    assert trace.output["rewritten_query"] is None
    assert trace.output["usage"].llm_calls == 1


async def test_without_selection_every_paragraph_is_knowledge() -> None:
    chat = FakeChat(chunks=["a [1]"])
    parts = EN.parts(EN.off, chat=chat)
    trace = await traced(parts.services, EN.question, ablation=Ablation(selection=False))

    assert [strip.kept for strip in trace.output["web_strips"]] == [True, True]
    assert EN.noise in chat.prompt()
    assert trace.output["usage"].scored_pairs == 1


@pytest.mark.parametrize(
    ("mode", "strips"), [("sentences", 2), ("groups", 3), ("words", 2), ("passage", 1)]
)
async def test_strip_modes_cut_as_they_say(mode: str, strips: int) -> None:
    sentence = "The Bergen paper mill did open when {} came along."
    text = " ".join(sentence.format(word) for word in range(7))
    trace = await traced(EN.parts(text).services, EN.question, strip_mode=mode)

    assert len(trace.output["internal_strips"]) == strips


async def test_bounds_reach_the_ports() -> None:
    parts = EN.parts(EN.off)
    trace = await traced(parts.services, EN.question, retrieve_k=3, web_pages=1, top_strips=1)

    assert parts.retriever.asked == [(EN.question, 3)]
    assert len(trace.output["web_pages"]) == 1


async def test_top_strips_bound_each_origin() -> None:
    sentence = "The Bergen paper mill did open when {} came along with its train."
    text = " ".join(sentence.format(word) for word in range(40))
    trace = await traced(EN.parts(text).services, EN.question, top_strips=2)

    kept = [strip for strip in trace.output["internal_strips"] if strip.kept]
    assert len(trace.output["internal_strips"]) > len(kept) == 2


def test_left_out_thresholds_are_the_evaluators() -> None:
    calibrated = Thresholds(upper=0.4, lower=-0.3, strip_floor=-0.2)

    assert Context().thresholds(calibrated) == calibrated
    assert Context(upper=0.0).thresholds(calibrated) == Thresholds(0.0, -0.3, -0.2)


@pytest.mark.parametrize(
    "options",
    [
        {"retrieve_k": 0},
        {"retrieve_k": "10"},
        {"web": "sometimes"},
        {"upper": float("nan")},
        {"max_critic": 11},
        {"refinement": "yes"},
        {"unknown": 1},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Context(**options)


def test_every_field_says_what_it_means() -> None:
    assert [
        name for name, field in Context.model_fields.items() if not (field.description or "")
    ] == []
