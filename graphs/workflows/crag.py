"""Corrective RAG (Yan et al., arXiv 2401.15884): grade what was retrieved, then correct it.

Correct refines the local passages. Incorrect searches the web instead. Ambiguous does both, and the
answer is generated from what comes of them, joined: where the web is down, from the local strips.
"""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.grading.actions import searches_web
from graphs.nodes.cite import cite, lacks_citations
from graphs.nodes.decide_retrieval import decide_retrieval
from graphs.nodes.generate import generate
from graphs.nodes.grade import grade, refine
from graphs.nodes.prepare import prepare
from graphs.nodes.web import rewrite_query, search_web, select_web_strips
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.breakpoints import pausable
from graphs.workflows.reflect import build_reflect
from graphs.workflows.retrieve import build_retrieve


def build_crag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("prepare", partial(prepare, services=services))
    graph.add_node("decide_retrieval", partial(decide_retrieval, services=services, default=None))
    graph.add_node("retrieve", build_retrieve(services))
    graph.add_node("grade", partial(grade, services=services))
    graph.add_node("refine", partial(refine, services=services))
    graph.add_node("rewrite_query", partial(rewrite_query, services=services))
    graph.add_node("search_web", partial(search_web, services=services))
    graph.add_node("select_web_strips", partial(select_web_strips, services=services))
    # Deferred: under Ambiguous it waits for the slower branch, and runs once.
    graph.add_node("generate", partial(generate, services=services), defer=True)
    graph.add_node("cite", partial(cite, services=services))
    graph.add_node("reflect", build_reflect(services))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "decide_retrieval")
    graph.add_conditional_edges("decide_retrieval", after_decision, ["retrieve", "generate"])
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", by_action, ["refine", "rewrite_query", "generate"])
    graph.add_edge("refine", "generate")
    graph.add_edge("rewrite_query", "search_web")
    graph.add_edge("search_web", "select_web_strips")
    graph.add_edge("select_web_strips", "generate")
    graph.add_conditional_edges("generate", by_answer, ["reflect", "cite", END])
    graph.add_edge("cite", END)
    graph.add_edge("reflect", END)
    return pausable(graph.compile(name="crag"))


def after_decision(state: State) -> str:
    """What needs no retrieval is answered at once."""
    retrieval = state.get("retrieval")
    return "retrieve" if retrieval is None or retrieval.decision else "generate"


def by_action(state: State) -> list[str]:
    """Correct refines, Incorrect searches the web, Ambiguous does both side by side.

    `web` always or never may say otherwise of the web. Without an action, where the evaluator
    failed, the passages are used as they are.
    """
    action, plan = state.get("action"), state.get("plan")
    branches = ["refine"] if action in ("correct", "ambiguous") else []
    if plan and searches_web(action, plan):
        branches.append("rewrite_query")
    return branches or ["generate"]


def by_answer(state: State) -> str:
    """Reflection, which cites as well, is an option here; from no knowledge there is neither."""
    plan = state.get("plan")
    has_draft = state.get("stopped_by") == "answered" and bool(state["draft"].knowledge)
    if plan and plan.reflects and has_draft:
        return "reflect"
    return "cite" if lacks_citations(state) else END
