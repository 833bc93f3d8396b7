"""Plain retrieval-augmented generation, the baseline: retrieve, then generate."""

from functools import partial

from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.compress import compress
from graphs.nodes.generate import generate
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.lookup import add_lookup


def build_rag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("compress", partial(compress, services=services))
    graph.add_node("generate", partial(generate, services=services))
    add_lookup(graph, services, then=["compress", "generate"])

    graph.add_edge("compress", "generate")
    graph.add_edge("generate", END)
    return graph.compile(name="rag")
