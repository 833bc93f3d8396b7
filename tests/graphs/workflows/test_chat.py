"""The chat view: messages in, one cited message out, streamed as one."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from graphs.critics.llm import LlmCritic
from graphs.workflows.chat import CHUNK_CHARS, build_messages, turns_of
from graphs.workflows.crag import build_crag
from graphs.workflows.self_crag import build_self_crag
from tests.fakes import FakeChat
from tests.graphs.languages import EN, ZH
from tests.graphs.workflows.threads import GRAPHS, on_threads, thread


async def test_the_last_user_turn_is_answered_with_its_sources() -> None:
    graph = build_messages(build_crag(ZH.parts(ZH.full).services))
    state = await graph.ainvoke({"messages": [HumanMessage(ZH.question)]})

    asked, replied = state["messages"]
    assert asked.content == ZH.question
    assert isinstance(replied, AIMessage)
    answer, sources = str(replied.content).split("\n\n")
    assert answer.replace(" [1]", "").replace("[1]", "") == ZH.full
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
    graph = on_threads(GRAPHS["messages"], EN.parts(EN.full, ZH.full).services)
    await graph.ainvoke({"messages": [HumanMessage(EN.question)]}, thread())
    state = await graph.ainvoke({"messages": [HumanMessage(ZH.question)]}, thread())

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


VERDICT = {"relevance": 1, "weak": [], "support": 2, "uncovered": [], "utility": 5}
REJECTED = {**VERDICT, "support": 0, "criticism": "Say the secret year."}
KEYWORDS, DRAFT = "secret, Bergen", "A rejected draft [1]."
REVISION = "It did open in 1852, when rails came to it [1]. " * 3


class Versatile(FakeChat):
    """One model that rewrites, drafts, judges and revises; whether it is asked to stream or not."""

    def said(self, messages: list[BaseMessage]) -> str:
        asked = "\n".join(str(message.text) for message in messages)
        if asked.endswith("The JSON object:"):
            verdict = REJECTED if "rejected draft" in asked else VERDICT
            return json.dumps(verdict if "<answer-" in asked else {"retrieval": 1})
        if asked.endswith("Keywords:"):
            return KEYWORDS
        return REVISION if "secret year" in asked else DRAFT

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.keywords = self.said(messages)
        return super()._generate(messages)

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.keywords = self.said(messages)
        self.chunks = list(self.keywords)
        async for chunk in super()._astream(messages):
            yield chunk


async def test_chunks_of_one_message_add_up_to_it_and_nothing_else_is_streamed() -> None:
    """Keywords, drafts, judgements and criticism are no messages of the chat, at any depth."""
    chat = Versatile()
    parts = EN.parts(EN.off, chat=chat, critic=LlmCritic(chat, "chat"))  # type: ignore[arg-type]
    graph = on_threads(lambda given: build_messages(build_self_crag(given)), parts.services)
    chunks = [
        chunk
        async for _, (chunk, _) in graph.astream(
            {"messages": [HumanMessage(EN.question)]},
            thread(),
            stream_mode="messages",
            subgraphs=True,
        )
    ]
    message = (await graph.aget_state(thread())).values["messages"][-1]

    assert parts.web.queries == [KEYWORDS]
    assert len(chat.asked) == 6, "decided, rewritten, drafted, judged, revised, judged"
    assert {chunk.id for chunk in chunks} == {message.id}
    assert {type(chunk) for chunk in chunks} == {AIMessageChunk}
    assert all(len(chunk.content) <= CHUNK_CHARS for chunk in chunks)
    text = "".join(chunk.content for chunk in chunks)
    assert text == message.content
    assert text.startswith(REVISION.strip())
    assert not any(other in text for other in ("secret", "rejected", "relevance"))
