"""Pauses and resumes runs, to be started where LANGGRAPH_STRICT_MSGPACK is set; tells JSON."""

import asyncio
import json
import logging
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from graphs.state import Context
from graphs.workflows.chat import build_messages
from graphs.workflows.self_crag import build_self_crag
from tests.fakes import GOOD, POOR, FakeCritic, ScriptedChat
from tests.graphs.languages import EN

TURN = {"messages": [HumanMessage(EN.question)]}


class Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def told(opening: str, heard: Heard) -> dict[str, Any]:
    """Kinds of the values that come back at a breakpoint inside `reflect`, and how the run ends.

    `opening`: the graph has its checkpointer from the start, or a copy of it, or it is in a chat.
    """
    chat = ScriptedChat(answers=["One [1].", "Two [1]."])
    critic = FakeCritic(script=[POOR, GOOD])
    graph: Any = build_self_crag(EN.parts(EN.half, EN.off, chat=chat, critic=critic).services)
    if opening == "chat":
        graph = build_messages(graph)
    if opening == "copy":
        graph = graph.copy({"checkpointer": InMemorySaver()})
    else:
        graph.checkpointer = InMemorySaver()
    heard.lines.clear()
    thread, context = {"configurable": {"thread_id": "one"}}, Context()
    given = TURN if opening == "chat" else {"question": EN.question}
    result: dict[str, Any] = {"kinds": {}, "answer": "", "error": ""}
    try:
        await graph.ainvoke(given, thread, context=context, interrupt_before=["criticise"])
        state = await graph.aget_state(thread, subgraphs=True)
        while state.tasks:
            for key, value in state.values.items():
                items = value if isinstance(value, list) else [value]
                kinds = {type(item).__name__ for item in items}
                result["kinds"][key] = sorted(kinds.union(result["kinds"].get(key, [])))
            state = state.tasks[0].state or state._replace(tasks=())
        output = await graph.ainvoke(None, thread, context=context)
        result["answer"] = output.get("answer") or output["messages"][-1].content
    except Exception as error:  # noqa: BLE001 what failed is what is told
        result["error"] = repr(error)
    return {**result, "logged": list(heard.lines)}


async def main() -> None:
    heard = Heard()
    logging.getLogger().addHandler(heard)
    print(json.dumps({name: await told(name, heard) for name in ("own", "copy", "chat")}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
