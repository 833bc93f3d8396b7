"""Corrective RAG (Yan et al., arXiv 2401.15884): grade what was retrieved, then correct it."""

from functools import partial

from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graphs.nodes.compress import compress
from graphs.nodes.generate import generate
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State, tunables
from graphs.workflows.correction import add_correction
from graphs.workflows.lookup import add_lookup
from graphs.workflows.reflect import build_reflect


def build_crag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("compress", partial(compress, services=services), defer=True)
    graph.add_node("generate", partial(generate, services=services), defer=True)
    graph.add_node("reflect", build_reflect(services))
    add_lookup(graph, services, then=["grade"], decides=may_skip_retrieval)
    add_correction(graph, services, then=["compress", "generate"])

    def by_option(state: State, runtime: Runtime[Context]) -> str:
        """Reflection is asked for by an option; what was said without knowledge has no support."""
        has_draft = state.get("stopped_by") == "answered" and bool(state["draft"].knowledge)
        return "reflect" if tunables(runtime).reflect and has_draft else END

    graph.add_edge("compress", "generate")
    graph.add_conditional_edges("generate", by_option, ["reflect", END])
    graph.add_edge("reflect", END)
    return graph.compile(name="crag")


def may_skip_retrieval(context: Context) -> bool:
    """crag looks everything up unless told otherwise."""
    return context.retrieval in ("adaptive", "never")
