"""Graphs with a checkpointer, as a server opens them, and every node of every graph by name."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from graphs.grading.strips import strips_of
from graphs.ports import Services
from graphs.types import Draft
from graphs.workflows.chat import build_messages
from graphs.workflows.reflect import build_reflect, build_reflection
from graphs.workflows.registry import WORKFLOWS
from graphs.workflows.retrieve import build_retrieve
from graphs.workflows.self_rag import build_draft_segments
from tests.fakes import POOR, FakeCritic, ScriptedChat, passage, services
from tests.graphs.languages import EN, Parts

Graph = CompiledStateGraph[Any, Any, Any, Any]

GRAPHS: dict[str, Callable[[Services], Graph]] = {
    **{name: workflow.build for name, workflow in WORKFLOWS.items()},
    "reflect": build_reflection,
    "messages": lambda parts: build_messages(WORKFLOWS["crag"].build(parts)),
}
SUBGRAPHS: dict[str, Callable[[Services], Graph]] = {
    "retrieve subgraph": build_retrieve,
    "draft_segments subgraph": build_draft_segments,
    "reflect subgraph": build_reflect,
}
NODES = [
    (name, node)
    for name, build in {**GRAPHS, **SUBGRAPHS}.items()
    for node in build(services()).builder.nodes
]
MANY = [f"Draft number {n} [1]." for n in range(20)]


def parts() -> Parts:
    """Ambiguous passages, a web, and a critic that rejects what a model writes."""
    chat = ScriptedChat(answers=MANY, keywords="Bergen, mill")
    return EN.parts(EN.half, EN.off, chat=chat, critic=FakeCritic(script=[POOR]))


def on_threads(build: Callable[[Services], Graph], given: Services) -> Graph:
    """A copy with a checkpointer, which is how LangGraph's server opens a graph."""
    return build(given).copy({"checkpointer": InMemorySaver()})


def thread(name: str = "one") -> Any:
    return {"configurable": {"thread_id": name}}


def input_of(graph: str) -> dict[str, Any]:
    """What the graph begins with; the subgraphs as the graph around them leaves it."""
    found = [passage(EN.half)]
    strips = strips_of(found, "passage")
    drafted = Draft("The Bergen mill burned [1].", tuple(strips), generator="fake-chat")
    if graph == "messages":
        return {"messages": [HumanMessage(EN.question)]}
    if graph == "reflect subgraph":
        return {"question": EN.question, "documents": found, "draft": drafted}
    if graph == "draft_segments subgraph":
        candidate = Draft("", tuple(strips))
        return {"question": EN.question, "documents": found, "candidates": [candidate]}
    return {"question": EN.question}


def as_json(value: Any) -> Any:
    """The value as a client is sent it, tuples as lists and values of ours as objects."""
    return json.loads(json.dumps(value, default=asdict))
