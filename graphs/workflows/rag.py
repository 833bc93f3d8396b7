"""Plain retrieval-augmented generation, the baseline: retrieve, then generate.

Nothing is graded or corrected; what a model wrote without naming its sources is cited. A run whose
option `web` is always gets the selected strips of a web search beside its passages, as crag would
find them: the papers' RAG with the web (CRAG, table 5).
"""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.grading.actions import searches_web
from graphs.nodes.cite import cite, lacks_citations
from graphs.nodes.generate import generate
from graphs.nodes.prepare import prepare
from graphs.nodes.web import rewrite_query, search_web, select_web_strips
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.breakpoints import pausable
from graphs.workflows.retrieve import build_retrieve


def build_rag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("prepare", partial(prepare, services=services))
    graph.add_node("retrieve", build_retrieve(services))
    graph.add_node("rewrite_query", partial(rewrite_query, services=services))
    graph.add_node("search_web", partial(search_web, services=services))
    graph.add_node("select_web_strips", partial(select_web_strips, services=services))
    graph.add_node("generate", partial(generate, services=services))
    graph.add_node("cite", partial(cite, services=services))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "retrieve")
    graph.add_conditional_edges("retrieve", by_web, ["rewrite_query", "generate"])
    graph.add_edge("rewrite_query", "search_web")
    graph.add_edge("search_web", "select_web_strips")
    graph.add_edge("select_web_strips", "generate")
    graph.add_conditional_edges("generate", by_citations, ["cite", END])
    graph.add_edge("cite", END)
    return pausable(graph.compile(name="rag"))


def by_citations(state: State) -> str:
    return "cite" if lacks_citations(state) else END


def by_web(state: State) -> str:
    """Without an action, the web is searched where the run always searches it."""
    plan = state.get("plan")
    return "rewrite_query" if plan and searches_web(None, plan) else "generate"
