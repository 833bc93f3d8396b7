"""Self-CRAG (Yan et al., arXiv 2401.15884, 5.3): CRAG's knowledge, then drafts and reflection."""

from functools import partial

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.crag import add_correction
from graphs.drafts import add_drafts, by_retrieval
from graphs.nodes.decide import decide
from graphs.nodes.gather import gather
from graphs.nodes.retrieve import retrieve
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State


def build_self_crag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("decide", partial(decide, services=services))
    graph.add_node("retrieve", partial(retrieve, services=services, first=False))
    graph.add_node("gather", gather, defer=True)
    add_correction(graph, services, then="gather")
    add_drafts(graph, services)

    graph.add_edge(START, "decide")
    graph.add_conditional_edges("decide", by_retrieval, ["retrieve", "generate"])
    graph.add_edge("retrieve", "grade")
    return graph.compile(name="self_crag")
