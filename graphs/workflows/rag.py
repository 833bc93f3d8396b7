"""Plain retrieval-augmented generation, the baseline: retrieve, then generate."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.generate import generate
from graphs.nodes.prepare import prepare
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.breakpoints import pausable
from graphs.workflows.retrieve import build_retrieve


def build_rag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("prepare", partial(prepare, services=services))
    graph.add_node("retrieve", build_retrieve(services))
    graph.add_node("generate", partial(generate, services=services))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    return pausable(graph.compile(name="rag"))
