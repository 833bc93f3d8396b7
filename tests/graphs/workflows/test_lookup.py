"""From the question to the passages: the optional steps, in the running graphs."""

from dataclasses import replace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graphs.nodes.search import fused
from graphs.state import Context
from graphs.types import Message, Usage
from graphs.workflows.crag import build_crag
from tests.fakes import FakeChat, FakeCritic, KnowingRetriever, passage
from tests.graphs.languages import EN, World, both_languages
from tests.graphs.traced import traced

MODEL = {"en": "Bergen paper mill", "zh": "卑尔根造纸厂"}
FOLLOW_UP = {"en": "When did it open?", "zh": "它何时开业？"}
WORKFLOWS = ["rag", "crag", "self_rag", "self_crag"]


def dialogue(world: World) -> list[Message]:
    opening = {"en": "What is the Bergen paper mill?", "zh": "什么是卑尔根造纸厂？"}
    return [
        {"role": "user", "content": opening[world.language]},
        {"role": "assistant", "content": world.half},
    ]


@both_languages
@pytest.mark.parametrize("workflow", WORKFLOWS)
async def test_a_follow_up_is_answered_as_what_it_means(world: World, workflow: str) -> None:
    parts = world.parts(world.full)
    question = FOLLOW_UP[world.language]
    trace = await traced(parts.services, question, workflow, dialogue(world))

    standalone = trace.output["standalone_question"]
    assert trace.nodes[0] == "contextualise"
    assert MODEL[world.language] in standalone
    assert [query for query, _ in parts.retriever.asked] == [standalone]
    assert all(asked.startswith(standalone) for call in parts.evaluator.calls for asked, _ in call)
    assert trace.output["stopped_by"] != "no_evidence"
    assert trace.output["degraded"] == []


@both_languages
async def test_a_question_that_stands_alone_is_left(world: World) -> None:
    parts = world.parts(world.full)
    trace = await traced(parts.services, world.question, "crag", dialogue(world))

    assert trace.nodes[0] == "contextualise"
    assert trace.output["standalone_question"] is None
    assert parts.retriever.asked == [(world.question, 10)]


@pytest.mark.parametrize(
    ("history", "options"), [([], {}), (dialogue(EN), {"follow_ups": False})], ids=["none", "off"]
)
async def test_the_step_is_left_out_where_nothing_is_followed(
    history: list[Message], options: dict[str, Any]
) -> None:
    trace = await traced(
        EN.parts(EN.full).services, "When did it open?", history=history, **options
    )

    assert trace.nodes[:2] == ["retrieve", "grade"]
    assert trace.output.get("standalone_question") is None


@both_languages
async def test_a_language_model_says_what_is_meant(world: World) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords=world.question)
    trace = await traced(
        world.parts(world.full, chat=chat).services, FOLLOW_UP[world.language], "rag",
        dialogue(world),
    )  # fmt: skip

    assert trace.output["standalone_question"] == world.question
    assert trace.output["usage"].llm_calls == 2
    assert world.question in chat.prompt()


@pytest.mark.parametrize(
    "reply", ["造纸厂何时开业？", "Two\nlines?", "x" * 2000], ids=["language", "lines", "length"]
)
async def test_a_reply_that_is_no_such_question_gives_way_to_the_rule(reply: str) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords=reply)
    trace = await traced(
        EN.parts(EN.full, chat=chat).services, "When did it open?", "rag", dialogue(EN)
    )

    assert trace.output["standalone_question"] == "When did the Bergen paper mill open?"


@both_languages
async def test_a_model_that_fails_is_told_and_the_rule_serves(world: World) -> None:
    chat = FakeChat(chunks=["a [1]"], fails_to_rewrite=True)
    trace = await traced(
        world.parts(world.full, chat=chat).services, FOLLOW_UP[world.language], "self_crag",
        dialogue(world),
    )  # fmt: skip

    assert MODEL[world.language] in trace.output["standalone_question"]
    assert trace.failed[0] == "generator"
    assert trace.output["usage"].llm_calls >= 2


@both_languages
@pytest.mark.parametrize("workflow", WORKFLOWS)
async def test_all_queries_are_searched_and_joined(world: World, workflow: str) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="mill papers")
    parts = world.parts(world.full, world.off, chat=chat, critic=FakeCritic())
    trace = await traced(
        parts.services, world.question, workflow,
        rewrite_question=True, hyde=True, decompose=True, retrieval="always",
    )  # fmt: skip

    queries = [world.question, f"{world.question}\nmill papers", "mill papers"]
    assert trace.output["queries"] == queries
    assert sorted(query for query, _ in parts.retriever.asked) == sorted(queries)
    assert trace.output["degraded"] == []
    assert len(trace.output["documents"]) == 2, "each passage once"


@both_languages
async def test_failing_ways_are_told_and_the_question_is_searched(world: World) -> None:
    parts = world.parts(world.full, chat=FakeChat(chunks=["a [1]"], fails_to_rewrite=True))
    trace = await traced(parts.services, world.question, "rag", hyde=True, rewrite_question=True)

    assert trace.output["queries"] == [world.question]
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
    trace = await traced(parts.services, question, "rag", decompose=True)

    assert len(trace.output["queries"]) == 3
    assert trace.output["queries"][0] == question
    assert (trace.output["degraded"], trace.output["usage"].llm_calls) == ([], 0)


async def test_what_only_a_model_could_do_is_told_where_it_was_asked_for() -> None:
    asked = await traced(EN.parts(EN.full).services, EN.question, "rag", hyde=True)
    preset = await traced(EN.parts(EN.full).services, EN.question, "rag", preset="best")

    assert (asked.failed, asked.output["queries"]) == (["generator"], [EN.question])
    assert (preset.failed, preset.output["queries"]) == ([], [EN.question])


async def test_what_one_query_alone_finds_is_there() -> None:
    parts = EN.parts(EN.full, chat=FakeChat(chunks=["a [1]"], keywords="x"))
    trace = await traced(
        replace(parts.services, retriever=KnowingRetriever([], known={"x": [passage(EN.full)]})),
        EN.question,
        "rag",
        rewrite_question=True,
    )

    assert [document.text for document in trace.output["documents"]] == [EN.full]


@pytest.mark.parametrize(
    ("retrieval", "share", "nodes"),
    [
        ("never", 1.0, ["decide", "generate"]),
        ("adaptive", 0.1, ["decide", "generate"]),
        ("adaptive", 0.9, ["decide", "retrieve", "grade", "refine", "generate"]),
        ("always", 0.1, ["retrieve", "grade", "refine", "generate"]),
        (None, 0.1, ["retrieve", "grade", "refine", "generate"]),
    ],
)
async def test_crag_decides_where_it_is_told_to(
    retrieval: str | None, share: float, nodes: list[str]
) -> None:
    chat, critic = FakeChat(chunks=["a"]), FakeCritic(share=share)
    parts = EN.parts(EN.full, chat=chat, critic=critic)
    trace = await traced(parts.services, EN.question, "crag", retrieval=retrieval)

    assert trace.nodes == nodes
    assert trace.output["stopped_by"] == "answered"


async def test_rag_never_decides() -> None:
    trace = await traced(EN.parts(EN.full).services, EN.question, "rag", retrieval="never")

    assert trace.nodes == ["retrieve", "generate"]


async def test_what_an_earlier_run_left_on_the_thread_is_void() -> None:
    graph = build_crag(EN.parts(EN.full).services)
    graph.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    first = {"question": "When did it open?", "history": dialogue(EN)}
    asked = await graph.ainvoke(first, config, context=Context(decompose=True))
    again = await graph.ainvoke({"question": EN.question, "history": []}, config, context=Context())

    assert asked["standalone_question"] == EN.question
    assert asked["queries"] == [EN.question]
    assert (again["standalone_question"], again["queries"]) == (None, [])
    assert again["usage"] == Usage(scored_pairs=3)


def test_ranks_are_joined_reciprocally() -> None:
    a, b, c = (passage(text, n) for n, text in enumerate("abc"))

    assert fused([[b, a]]) == [b, a], "a lone ranking keeps its scores"
    joined = fused([[a, b], [b, c], []])
    assert [found.id for found in joined] == [b.id, a.id, c.id]
    assert joined[0].score == pytest.approx(1 / 61 + 1 / 62)
    assert fused([]) == []


@both_languages
async def test_a_plain_run_asks_the_index_once_with_its_search(world: World) -> None:
    parts = world.parts(world.full)
    trace = await traced(parts.services, world.question, "self_crag", search="bm25", alpha=2.0)

    [search] = parts.retriever.searches
    assert search is not None
    assert (search.mode, search.alpha) == ("bm25", 2.0)
    assert not {"contextualise", "expand", "rerank", "compress"} & set(trace.nodes)


@both_languages
async def test_an_answer_from_no_knowledge_is_not_reflected_on(world: World) -> None:
    """Nothing could support it, and a run that is not to look up does not."""
    parts = world.parts(world.full, chat=FakeChat(chunks=["a"]), critic=FakeCritic())
    trace = await traced(parts.services, world.question, retrieval="never", reflect=True)

    assert trace.nodes == ["decide", "generate"]
    assert parts.retriever.asked == []
    assert trace.output["stopped_by"] == "answered"
