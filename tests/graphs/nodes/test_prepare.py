"""How a run begins: the question checked, the thread's dialogue heard, the run before forgotten."""

from typing import Any

import pytest

from graphs.errors import InvalidQuestion
from graphs.nodes.prepare import MAX_QUESTION_CHARS
from graphs.state import Context
from graphs.types import Message
from tests.fakes import FakeChat
from tests.graphs.languages import EN, ZH, World, both_languages
from tests.graphs.workflows.threads import GRAPHS, Graph, on_threads, thread

GREETED: list[Message] = [{"role": "user", "content": "What is the old lighthouse of Hornsvik?"}]


def opened(name: str = "rag", world: World = EN, chat: FakeChat | None = None) -> Graph:
    return on_threads(GRAPHS[name], world.parts(world.full, chat=chat).services)


async def ask(graph: Graph, question: str, **given: Any) -> dict[str, Any]:
    output: dict[str, Any] = await graph.ainvoke({"question": question, **given}, thread())
    return output


async def history_of(graph: Graph) -> list[Message]:
    history: list[Message] = (await graph.aget_state(thread())).values["history"]
    return history


@pytest.mark.parametrize("name", ["rag", "self_crag"])
async def test_without_a_question_one_sentence_says_so(name: str) -> None:
    graph, empty = opened(name), [{}, {"question": " \n"}, {"question": None}, {"history": []}]
    for given in empty:
        with pytest.raises(InvalidQuestion) as refused:
            await graph.ainvoke(given, thread())

        assert str(refused.value) == "question is empty: give a text of 1 to 8,000 characters."


async def test_a_question_has_its_bound() -> None:
    graph = opened()
    assert (await ask(graph, "why " * (MAX_QUESTION_CHARS // 4)))["answer"]

    with pytest.raises(InvalidQuestion, match=r"^question has 8,001 characters; at most 8,000 "):
        await ask(graph, "x" * (MAX_QUESTION_CHARS + 1))
    assert (await ask(graph, EN.question))["citations"], "the thread may be asked again"


@both_languages
async def test_a_second_question_is_understood_from_the_first(world: World) -> None:
    graph = opened(world=world)
    first = await ask(graph, world.question)
    follow_up = {"en": "And who built it?", "zh": "它是谁建的？"}[world.language]
    second = await ask(graph, follow_up)

    assert first.get("standalone_question") is None
    topic = world.question.rstrip("?？")
    assert second["standalone_question"] == f"{follow_up} ({topic})"
    assert await history_of(graph) == [
        {"role": "user", "content": world.question},
        {"role": "assistant", "content": first["answer"]},
    ]


async def test_the_dialogue_of_a_thread_grows() -> None:
    graph = opened()
    await ask(graph, EN.question, history=GREETED)
    await ask(graph, "And who built it?")
    await ask(graph, "Why?")

    said = [turn["content"] for turn in await history_of(graph) if turn["role"] == "user"]
    assert said == [GREETED[0]["content"], EN.question, "And who built it?"]


async def test_a_history_that_is_given_wins() -> None:
    graph = opened()
    await ask(graph, EN.question)
    second = await ask(graph, "Why?", history=GREETED)

    assert second["standalone_question"] == "Why? (What is the old lighthouse of Hornsvik)"
    assert await history_of(graph) == GREETED


async def test_where_follow_ups_are_switched_off_the_question_stays() -> None:
    graph, context = opened(), Context(follow_ups=False)
    await graph.ainvoke({"question": EN.question}, thread(), context=context)
    second = await graph.ainvoke({"question": "Why?"}, thread(), context=context)

    assert second.get("standalone_question") is None


async def test_a_question_that_was_never_answered_is_not_given_the_answer_before_it() -> None:
    graph = opened()
    first = await ask(graph, EN.question)
    await graph.ainvoke({"question": ZH.question}, thread(), interrupt_before=["generate"])
    await ask(graph, "Why?")

    told = [turn["content"] for turn in await history_of(graph)]
    assert told.count(first["answer"]) == 1


@pytest.mark.parametrize("name", ["rag", "crag", "reflect"])
async def test_what_an_earlier_run_spent_is_not_counted_again(name: str) -> None:
    chat = FakeChat(chunks=["In 1852 [1]."], keywords="Bergen mill opening")
    graph = opened(name, chat=chat)
    context = Context(expand=["rewrite"], follow_ups=False, web="never", max_llm_calls=2)
    first, second = [
        await graph.ainvoke({"question": EN.question}, thread(), context=context) for _ in range(2)
    ]

    assert first["queries"] == second["queries"] == [EN.question, "Bergen mill opening"]
    assert second["usage"].llm_calls == 2
    assert second["degraded"] == []
