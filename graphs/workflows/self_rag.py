"""Self-RAG (Asai et al., arXiv 2310.11511): retrieve on demand, draft from each, choose."""

from functools import partial

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graphs.grading.actions import looks_again, relevant, searches_web
from graphs.nodes.assess import assess
from graphs.nodes.build_candidates import gather_passages
from graphs.nodes.rewrite_query import rewrite
from graphs.nodes.search_web import search_web
from graphs.nodes.select_web_strips import select
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State, tunables
from graphs.workflows.drafts import add_beam, add_drafts
from graphs.workflows.lookup import add_lookup, always


def build_self_rag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    add_lookup(graph, services, then=["assess"], decides=always)
    graph.add_node("assess", partial(assess, services=services))
    graph.add_node("rewrite", partial(rewrite, services=services))
    graph.add_node("search_web", partial(search_web, services=services))
    graph.add_node("select", partial(select, services=services))
    graph.add_node("gather", partial(gather_passages, services=services))
    add_drafts(graph, services, then_extends=True)
    add_beam(graph, services)

    def by_relevance(state: State, runtime: Runtime[Context]) -> str:
        """Relevant passages are drafted from; without any, retrieval goes on: index, then web."""
        context, documents = tunables(runtime), state.get("documents", [])
        bounds = context.thresholds(services.evaluator.thresholds)
        is_graded = state.get("is_graded", False)
        found = bool(relevant(documents, bounds, is_graded=is_graded))
        if not found and looks_again(state.get("looks", 1), len(documents), context):
            return "retrieve"
        wanted = searches_web(None if found else "incorrect", context, has_web(services))
        return "rewrite" if wanted else "gather"

    graph.add_conditional_edges("assess", by_relevance, ["retrieve", "rewrite", "gather"])
    graph.add_edge("rewrite", "search_web")
    graph.add_edge("search_web", "select")
    graph.add_edge("select", "gather")
    return graph.compile(name="self_rag")


def has_web(services: Services) -> bool:
    return services.web_search is not None
