"""The chat view: messages in, one cited message out."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from graphs.workflows.chat import build_messages, turns_of
from graphs.workflows.crag import build_crag
from tests.fakes import FakeChat
from tests.graphs.languages import EN, ZH, World, both_languages


@both_languages
async def test_the_last_user_turn_is_answered_with_its_sources(world: World) -> None:
    graph = build_messages(build_crag(world.parts(world.full).services))
    state = await graph.ainvoke({"messages": [HumanMessage(world.question)]})

    asked, replied = state["messages"]
    assert asked.content == world.question
    assert isinstance(replied, AIMessage)
    answer, sources = str(replied.content).split("\n\n")
    assert answer.replace(" [1]", "").replace("[1]", "") == world.full
    assert sources == "[1] Page 0 — docs/en/page.md"
    assert set(state) == {"messages"}


async def test_earlier_turns_are_the_dialogue() -> None:
    chat = FakeChat(chunks=["a [1]"])
    graph = build_messages(build_crag(EN.parts(EN.full, chat=chat).services))
    await graph.ainvoke(
        {
            "messages": [
                SystemMessage("hidden"),
                HumanMessage("Tell me of mills."),
                AIMessage("They mill."),
                HumanMessage([{"type": "text", "text": EN.question}]),
            ]
        }
    )

    assert "user: Tell me of mills.\nassistant: They mill." in chat.prompt()
    assert "hidden" not in chat.prompt()
    assert chat.prompt().count(EN.question) == 1, "the question is no part of the dialogue"


async def test_the_context_reaches_the_workflow_inside() -> None:
    parts = EN.parts(EN.off)
    graph = build_messages(build_crag(parts.services))
    messages = [HumanMessage(EN.question)]
    state = await graph.ainvoke({"messages": messages}, context={"web": "never"})  # type: ignore[arg-type]

    assert state["messages"][-1].content == EN.unknown
    assert parts.web.queries == []


async def test_a_thread_goes_on() -> None:
    graph = build_messages(build_crag(EN.parts(EN.full, ZH.full).services))
    graph.checkpointer = InMemorySaver()
    thread = {"configurable": {"thread_id": "one"}}
    await graph.ainvoke({"messages": [HumanMessage(EN.question)]}, thread)
    state = await graph.ainvoke({"messages": [HumanMessage(ZH.question)]}, thread)

    assert len(state["messages"]) == 4
    assert "1852年" in str(state["messages"][-1].content)


async def test_messages_without_a_user_turn_are_refused() -> None:
    graph = build_messages(build_crag(EN.parts().services))

    with pytest.raises(ValueError, match="no user turn"):
        await graph.ainvoke({"messages": [AIMessage("hello")]})


def test_empty_turns_and_tools_are_no_dialogue() -> None:
    assert turns_of([HumanMessage(" "), SystemMessage("x"), AIMessage("y")]) == [
        {"role": "assistant", "content": "y"}
    ]
