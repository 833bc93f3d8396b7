"""Plain retrieval-augmented generation, the baseline: retrieve, then generate."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.generate import generate
from graphs.nodes.retrieve import retrieve
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State


def build_rag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("retrieve", partial(retrieve, services=services))
    graph.add_node("generate", partial(generate, services=services))

    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    return graph.compile(name="rag")
