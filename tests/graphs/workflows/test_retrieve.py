"""From the question to the passages: the optional steps, in the running graphs."""

from dataclasses import replace
from typing import Any

import pytest

from graphs.nodes.search import fused
from graphs.types import Message, Usage
from tests.fakes import FakeChat, FakeCritic, KnowingRetriever, passage
from tests.graphs.languages import EN, ZH, Parts, World, both_languages, every_workflow
from tests.graphs.traced import Trace, traced
from tests.graphs.workflows.test_crag import LOCAL

MEANT = {"en": "Bergen paper mill", "zh": "卑尔根造纸厂"}
FOLLOW_UP = {"en": "When did it open?", "zh": "它何时开业？"}
DIRECT = ["prepare", "decide_retrieval", "generate"]


def dialogue(world: World) -> list[Message]:
    opening = {"en": "What is the Bergen paper mill?", "zh": "什么是卑尔根造纸厂？"}
    return [
        {"role": "user", "content": opening[world.language]},
        {"role": "assistant", "content": world.half},
    ]


async def followed_up(parts: Parts, workflow: str = "rag") -> Trace:
    """A run of the world's follow-up, after the dialogue."""
    world = parts.world
    return await traced(parts.services, FOLLOW_UP[world.language], workflow, dialogue(world))


@every_workflow
async def test_a_follow_up_is_answered_as_what_it_means(workflow: str, world: World) -> None:
    parts = world.parts(world.full)
    trace = await followed_up(parts, workflow)

    standalone = trace.output["standalone_question"]
    assert trace.inner["retrieve"] == ["search"], "no language model is there to be asked"
    assert MEANT[world.language] in standalone
    assert [query for query, _ in parts.retriever.asked] == [standalone]
    assert all(asked.startswith(standalone) for call in parts.evaluator.calls for asked, _ in call)
    assert trace.output["stopped_by"] != "no_evidence"
    assert trace.output["degraded"] == []


async def test_a_question_that_stands_alone_is_left() -> None:
    parts = EN.parts(EN.full)
    trace = await parts.ask("crag", dialogue(EN))

    assert trace.output.get("standalone_question") is None
    assert parts.retriever.asked == [(EN.question, 10)]


@both_languages
async def test_a_language_model_says_what_is_meant(world: World) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords=world.question)
    parts = world.parts(world.full, chat=chat)
    trace = await followed_up(parts)

    assert trace.inner["retrieve"] == ["contextualise", "search"]
    assert trace.output["standalone_question"] == world.question
    assert parts.retriever.asked == [(world.question, 10)]
    assert trace.output["usage"].llm_calls == 2
    assert world.question in chat.prompt()


async def test_what_it_words_is_graded_by_its_own_parts() -> None:
    meant = "When did the Bergen mill open, and who paid for the Bergen mill?"
    parts = EN.parts(EN.full, chat=FakeChat(chunks=["a [1]"], keywords=meant))
    trace = await followed_up(parts, "crag")

    assert len(trace.output["plan"].subquestions) == 2
    assert {asked for asked, _ in parts.evaluator.calls[0]} == {
        meant, *trace.output["plan"].subquestions
    }  # fmt: skip


async def test_a_follow_up_that_the_model_leaves_as_it_is_stands_alone() -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="when did IT open?")
    trace = await followed_up(EN.parts(EN.full, chat=chat))

    assert trace.output["standalone_question"] is None


@pytest.mark.parametrize(
    ("reply", "fails"),
    [("造纸厂何时开业？", False), ("Two\nlines?", False), ("", True)],
    ids=["language", "lines", "failure"],
)
async def test_where_it_words_nothing_the_rule_serves(reply: str, fails: bool) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords=reply, fails_to_rewrite=fails)
    trace = await followed_up(EN.parts(EN.full, chat=chat))

    joined = "When did it open? (What is the Bergen paper mill)"
    assert trace.output["standalone_question"] == joined
    assert trace.failed == (["generator"] if fails else [])
    assert trace.output["usage"].llm_calls == 2


async def test_a_later_look_words_and_expands_nothing_again() -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="mill papers")
    parts = EN.parts(*[EN.off] * 9, chat=chat, critic=FakeCritic(), offline=True)
    trace = await parts.ask("self_rag", dialogue(EN), retrieve_k=2, expand=["rewrite"])

    assert trace.nodes.count("retrieve") == 2
    assert trace.inner["retrieve"] == ["contextualise", "expand", "search", "search"]


@every_workflow
async def test_all_queries_are_searched_and_joined(workflow: str, world: World) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="Bergen mill papers")
    parts = world.parts(world.full, world.off, chat=chat, critic=FakeCritic())
    trace = await parts.ask(workflow, expand=["rewrite", "decompose", "hyde"], retrieval="always")

    queries = [world.question, f"{world.question}\nBergen mill papers", "Bergen mill papers"]
    assert trace.output["queries"] == queries
    assert sorted(query for query, _ in parts.retriever.asked) == sorted(queries)
    assert trace.output["degraded"] == []
    assert len(trace.output["documents"]) == 2, "each passage once"


async def test_failing_ways_are_told_and_the_question_is_searched() -> None:
    parts = ZH.parts(ZH.full, chat=FakeChat(chunks=["a [1]"], fails_to_rewrite=True))
    trace = await parts.ask("rag", expand=["rewrite", "hyde"])

    assert trace.output["queries"] == [ZH.question]
    assert trace.failed == ["generator"]
    assert trace.output["usage"] == Usage(llm_calls=3, input_tokens=10, output_tokens=3)
    assert trace.output["stopped_by"] == "answered"


@both_languages
async def test_without_a_model_a_question_is_decomposed_by_rule(world: World) -> None:
    question = {
        "en": "When did the mill open, and who built the railway?",
        "zh": "造纸厂何时开业，铁路是谁修的？",
    }[world.language]
    parts = world.parts(world.full)
    trace = await traced(parts.services, question, "rag", expand=["decompose"])

    assert len(trace.output["queries"]) == 3
    assert trace.output["queries"][0] == question
    assert (trace.output["degraded"], trace.output["usage"].llm_calls) == ([], 0)


async def test_what_only_a_model_could_do_is_told_where_it_was_asked_for() -> None:
    asked = await EN.parts(EN.full).ask("rag", expand=["hyde"])
    preset = await EN.parts(EN.full).ask("rag", preset="best")

    assert (asked.failed, asked.output["queries"]) == (["generator"], [EN.question])
    assert (preset.failed, preset.output["queries"]) == ([], [EN.question])


async def test_what_one_query_alone_finds_is_there() -> None:
    parts = EN.parts(EN.full, chat=FakeChat(chunks=["a [1]"], keywords="Bergen x"))
    trace = await traced(
        replace(
            parts.services, retriever=KnowingRetriever([], known={"Bergen x": [passage(EN.full)]})
        ),
        EN.question,
        "rag",
        expand=["rewrite"],
    )

    assert [document.text for document in trace.output["documents"]] == [EN.full]


@pytest.mark.parametrize(
    ("options", "share", "nodes"),
    [
        ({"retrieval": "never", "reflect": True}, 1.0, DIRECT),
        ({"retrieval": "adaptive"}, 0.9, LOCAL),
        ({}, 0.1, LOCAL),
    ],
)
async def test_crag_decides_where_it_is_told_to(
    options: dict[str, Any], share: float, nodes: list[str]
) -> None:
    """An answer from no knowledge is not reflected on: nothing could support it."""
    chat, critic = FakeChat(chunks=["a [1]"]), FakeCritic(share=share)
    parts = EN.parts(EN.full, chat=chat, critic=critic)
    trace = await parts.ask("crag", **options)

    assert trace.nodes == nodes
    assert bool(parts.retriever.asked) == (nodes == LOCAL)
    assert trace.output["stopped_by"] == "answered"


async def test_rag_never_decides() -> None:
    trace = await EN.parts(EN.full).ask("rag", retrieval="never")

    assert trace.nodes == ["prepare", "retrieve", "generate"]


def test_ranks_are_joined_reciprocally() -> None:
    a, b, c = (passage(text, n) for n, text in enumerate("abc"))

    assert fused([[b, a]]) == [b, a], "a lone ranking keeps its scores"
    joined = fused([[a, b], [b, c], []])
    assert [found.id for found in joined] == [b.id, a.id, c.id]
    assert joined[0].retrieval_score == pytest.approx(1 / 61 + 1 / 62)
    assert fused([]) == []
