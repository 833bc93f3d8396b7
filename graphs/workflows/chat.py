"""A chat view of a workflow: messages in, one message out, for Studio's chat and chat pages."""

from typing import Annotated

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from graphs.state import Answer, Context, Question, State
from graphs.types import Citation, Message


class Chat(TypedDict):
    """What a chat page sends and reads."""

    messages: Annotated[list[AnyMessage], add_messages]


class ChatState(Chat, total=False):
    """The chat and what it shares with the workflow inside."""

    question: str
    history: list[Message]
    answer: str
    citations: list[Citation]


def turns_of(messages: list[BaseMessage]) -> list[Message]:
    """The dialogue in words alone: what people and the assistant said."""
    roles = {"human": "user", "ai": "assistant"}
    return [
        Message(role="user" if roles[message.type] == "user" else "assistant", content=text)
        for message in messages
        if message.type in roles and (text := str(message.text).strip())
    ]


async def listen(state: ChatState) -> Question:
    """The last user turn is the question, what stands before it the dialogue."""
    turns = turns_of(list(state["messages"]))
    asked = max((i for i, turn in enumerate(turns) if turn["role"] == "user"), default=None)
    if asked is None:
        raise ValueError("messages hold no user turn to answer")
    return {"question": turns[asked]["content"], "history": turns[:asked]}


async def reply(state: ChatState) -> dict[str, list[BaseMessage]]:
    """The answer with its sources listed below."""
    sources = [
        f"[{citation.n}] {citation.title} — {citation.source}"
        for citation in state.get("citations", [])
    ]
    return {"messages": [AIMessage("\n\n".join([state["answer"], "\n".join(sources)]).strip())]}


def build_messages(
    workflow: CompiledStateGraph[State, Context, Question, Answer],
) -> CompiledStateGraph[ChatState, Context, Chat, Chat]:
    graph = StateGraph(ChatState, context_schema=Context, input_schema=Chat, output_schema=Chat)
    graph.add_node("listen", listen)
    graph.add_node("workflow", workflow)
    graph.add_node("reply", reply)

    graph.add_edge(START, "listen")
    graph.add_edge("listen", "workflow")
    graph.add_edge("workflow", "reply")
    graph.add_edge("reply", END)
    return graph.compile(name="messages")
