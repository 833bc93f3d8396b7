"""The baseline: retrieve, generate, no evaluator between them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graphs.ports import Services
from graphs.workflows.rag import build_rag
from graphs.workflows.reflect import build_reflection
from tests.fakes import FakeChat, FakeWebSearch, passage
from tests.graphs.languages import EN, World, both_languages
from tests.graphs.traced import traced
from tests.graphs.workflows.threads import on_threads, thread


@both_languages
async def test_it_retrieves_and_quotes(world: World) -> None:
    parts = world.parts(world.full, world.off)
    trace = await parts.ask("rag")

    assert trace.nodes == ["prepare", "retrieve", "generate"]
    assert trace.inner["retrieve"] == ["search"]
    assert trace.output.get("action") is None
    assert trace.answer.replace(" [1]", "").replace("[1]", "") == world.full
    assert [document.relevance for document in trace.output["documents"]] == [None, None]
    assert parts.web.queries == []


@both_languages
async def test_web_always_joins_selected_strips_to_the_passages(world: World) -> None:
    chat = FakeChat(chunks=["a [1]. ", "b [2]."])
    parts = world.parts(world.off, chat=chat)
    trace = await parts.ask("rag", web="always")

    web = ["rewrite_query", "search_web", "select_web_strips"]
    assert trace.nodes == ["prepare", "retrieve", *web, "generate"]
    assert trace.output.get("action") is None
    assert [citation.origin for citation in trace.output["citations"]] == ["internal", "web"]
    assert world.noise not in chat.prompt()


@both_languages
async def test_web_always_without_a_web_answers_from_the_passages(world: World) -> None:
    down = world.parts(world.full, web=FakeWebSearch(fails=True))
    trace = await traced(down.services, world.question, "rag", web="always")
    off = replace(world.parts(world.full).services, web_search=None)
    without = await traced(off, world.question, "rag", web="always")

    assert (trace.failed, without.failed) == (["web_search"], [])
    assert without.nodes == ["prepare", "retrieve", "generate"]
    assert {citation.text for citation in trace.output["citations"]} == {world.full}
    assert trace.answer == without.answer


async def test_the_model_gets_the_passages_as_they_came() -> None:
    chat = FakeChat(chunks=["a [2]"])
    parts = EN.parts(EN.off, EN.full, chat=chat)
    trace = await parts.ask("rag")

    assert parts.evaluator.calls == []
    assert chat.prompt().index(EN.off) < chat.prompt().index(EN.full)
    assert [citation.text for citation in trace.output["citations"]] == [EN.full]


async def test_a_retrievers_high_score_does_not_make_a_sentence_supported() -> None:
    parts = EN.parts()
    parts.retriever.passages = [replace(passage(EN.off), retrieval_score=1.3)]
    trace = await parts.ask("rag")

    assert trace.output["stopped_by"] == "no_evidence"


@pytest.mark.parametrize("build", [build_rag, build_reflection], ids=["rag", "reflect"])
async def test_a_second_question_on_the_thread_has_its_strips(
    build: Callable[[Services], Any],
) -> None:
    graph = on_threads(build, EN.parts(EN.full, EN.off).services)
    before = await graph.ainvoke({"question": EN.question}, thread())
    after = await graph.ainvoke({"question": EN.question}, thread())

    assert [strip.text for strip in before["internal_strips"]] == [EN.full, EN.off]
    assert after["internal_strips"] == before["internal_strips"]
