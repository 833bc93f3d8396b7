"""Self-CRAG (Yan et al., arXiv 2401.15884, 5.3): CRAG's knowledge, then drafts and reflection.

As in crag, Correct refines the local passages, Incorrect searches the web, Ambiguous does both.
What comes of it is drafted from instead of the passages Self-RAG would have retrieved: under
Ambiguous the joined knowledge, with the web down the local strips alone; without any it abstains.
"""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from graphs.grading.actions import searches_web
from graphs.nodes.candidates import build_candidates, draft, judge, select_candidate
from graphs.nodes.decide_retrieval import decide_retrieval
from graphs.nodes.generate import abstain, generate
from graphs.nodes.grade import grade, refine
from graphs.nodes.prepare import prepare
from graphs.nodes.web import rewrite_query, search_web, select_web_strips
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.breakpoints import pausable
from graphs.workflows.reflect import build_reflect
from graphs.workflows.retrieve import build_retrieve


def build_self_crag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("prepare", partial(prepare, services=services))
    graph.add_node("decide_retrieval", partial(decide_retrieval, services=services))
    graph.add_node("retrieve", build_retrieve(services))
    graph.add_node("grade", partial(grade, services=services))
    graph.add_node("refine", partial(refine, services=services))
    graph.add_node("rewrite_query", partial(rewrite_query, services=services))
    graph.add_node("search_web", partial(search_web, services=services))
    graph.add_node("select_web_strips", partial(select_web_strips, services=services))
    # Deferred: under Ambiguous it waits for the slower branch, and runs once.
    graph.add_node("build_candidates", partial(build_candidates, services=services), defer=True)
    graph.add_node("draft", partial(draft, services=services))
    graph.add_node("judge", partial(judge, services=services))
    graph.add_node("select_candidate", select_candidate)
    graph.add_node("reflect", build_reflect(services))
    graph.add_node("abstain", partial(abstain, services=services))
    graph.add_node("generate", partial(generate, services=services))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "decide_retrieval")
    graph.add_conditional_edges("decide_retrieval", after_decision, ["retrieve", "generate"])
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", by_action, ["refine", "rewrite_query", "build_candidates"])
    graph.add_edge("refine", "build_candidates")
    graph.add_edge("rewrite_query", "search_web")
    graph.add_edge("search_web", "select_web_strips")
    graph.add_edge("select_web_strips", "build_candidates")
    graph.add_conditional_edges("build_candidates", to_drafts, ["draft", "abstain"])
    graph.add_edge("draft", "judge")
    graph.add_conditional_edges("judge", by_drafts, ["select_candidate", "abstain"])
    graph.add_conditional_edges("select_candidate", by_judgement, ["reflect", END])
    for last in ("reflect", "abstain", "generate"):
        graph.add_edge(last, END)
    return pausable(graph.compile(name="self_crag"))


def after_decision(state: State) -> str:
    """What needs no retrieval is answered at once, in one call that nothing judges."""
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
    return branches or ["build_candidates"]


def to_drafts(state: State) -> list[Send] | str:
    """One draft a candidate, in parallel, the best first."""
    candidates = state.get("candidates", [])
    return [Send("draft", {**state, "draft": each}) for each in candidates] or "abstain"


def by_drafts(state: State) -> str:
    return "select_candidate" if state.get("candidates") else "abstain"


def by_judgement(state: State) -> str:
    """Where the critic has failed already, it is not asked again."""
    return "reflect" if state["draft"].judgement else END
