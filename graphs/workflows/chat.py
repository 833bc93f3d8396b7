"""A chat view of a workflow: messages in, one message out, for Studio's chat and chat pages."""

from typing import Annotated, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.message import push_message
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from graphs.state import Answer, Citations, Context, Question, State
from graphs.types import Message
from graphs.workflows.breakpoints import pausable

CHUNK_CHARS = 40


class Chat(TypedDict):
    """What a chat page sends and reads."""

    messages: Annotated[list[AnyMessage], add_messages]


class ChatState(Chat, total=False):
    """The chat and what it shares with the workflow inside."""

    question: str
    history: list[Message]
    answer: str
    citations: Citations


def build_messages(
    workflow: CompiledStateGraph[State, Context, Question, Answer],
) -> CompiledStateGraph[ChatState, Context, Chat, Chat]:
    graph = StateGraph(ChatState, context_schema=Context, input_schema=Chat, output_schema=Chat)
    graph.add_node("listen", listen)
    # Keywords, judgements and rejected drafts of a language model are no messages of the chat.
    graph.add_node("workflow", workflow.with_config(tags=[TAG_NOSTREAM]))
    graph.add_node("reply", reply)

    graph.add_edge(START, "listen")
    graph.add_edge("listen", "workflow")
    graph.add_edge("workflow", "reply")
    graph.add_edge("reply", END)
    return pausable(graph.compile(name="messages"))


async def listen(state: ChatState) -> Question:
    """The last user turn is the question, what stands before it the dialogue.

    Raises ValueError where there is none.
    """
    turns = turns_of(list(state["messages"]))
    last = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=None)
    if last is None:
        raise ValueError("messages hold no user turn to answer")
    return {"question": turns[last]["content"], "history": turns[:last]}


async def reply(state: ChatState) -> dict[str, Any]:
    """The answer with its sources below, streamed as one growing message once it stands.

    A chat page can take nothing back, so drafts that may be rejected are not streamed.
    """
    sources = [
        f"[{citation.n}] {citation.title} — {citation.source}"
        for citation in state.get("citations", [])
    ]
    text = "\n\n".join([state["answer"], "\n".join(sources)]).strip()
    message = AIMessage(text, id=f"answer-{uuid4()}")
    for start in range(0, len(text), CHUNK_CHARS):
        chunk = AIMessageChunk(content=text[start : start + CHUNK_CHARS], id=message.id)
        push_message(chunk, state_key=None)
    return {"messages": [message]}


def turns_of(messages: list[BaseMessage]) -> list[Message]:
    """The dialogue in words alone: what people and the assistant said."""
    return [
        Message(role="user" if message.type == "human" else "assistant", content=text)
        for message in messages
        if message.type in ("human", "ai") and (text := str(message.text).strip())
    ]
