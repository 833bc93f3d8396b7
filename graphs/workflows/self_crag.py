"""Self-CRAG (Yan et al., arXiv 2401.15884, 5.3): CRAG's knowledge, then drafts and reflection."""

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.build_candidates import gather
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.correction import add_correction
from graphs.workflows.drafts import add_drafts
from graphs.workflows.lookup import add_lookup, always


def build_self_crag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    add_lookup(graph, services, then=["grade"], decides=always)
    add_correction(graph, services, then=["gather"])
    graph.add_node("gather", gather, defer=True)
    add_drafts(graph, services)
    return graph.compile(name="self_crag")
