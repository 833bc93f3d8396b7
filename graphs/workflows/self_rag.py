"""Self-RAG (Asai et al., arXiv 2310.11511): retrieve on demand, draft from each, choose.

Passages found irrelevant make retrieval go on: the next ones of the index, then the web. A long
answer is drafted segment by segment in the subgraph `draft_segments`.
"""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from graphs.grading.actions import relevant, searches_web
from graphs.nodes.candidates import build_passage_candidates, draft, judge, select_candidate
from graphs.nodes.decide_retrieval import decide_retrieval
from graphs.nodes.draft_segments import extend, prune, retrieve_more
from graphs.nodes.generate import abstain, generate
from graphs.nodes.grade import grade
from graphs.nodes.prepare import prepare
from graphs.nodes.web import rewrite_query, search_web, select_web_strips
from graphs.ports import Services
from graphs.state import Answer, Context, LongAnswerOutput, Question, State, SubgraphInput
from graphs.workflows.breakpoints import pausable
from graphs.workflows.reflect import build_reflect
from graphs.workflows.retrieve import build_retrieve


def build_self_rag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("prepare", partial(prepare, services=services))
    graph.add_node("decide_retrieval", partial(decide_retrieval, services=services))
    graph.add_node("retrieve", build_retrieve(services))
    graph.add_node("grade", partial(grade, services=services, acts=False))
    graph.add_node("rewrite_query", partial(rewrite_query, services=services))
    graph.add_node("search_web", partial(search_web, services=services))
    graph.add_node("select_web_strips", partial(select_web_strips, services=services))
    graph.add_node("build_candidates", partial(build_passage_candidates, services=services))
    graph.add_node("draft", partial(draft, services=services))
    graph.add_node("judge", partial(judge, services=services))
    graph.add_node("draft_segments", build_draft_segments(services))
    graph.add_node("select_candidate", select_candidate)
    graph.add_node("reflect", build_reflect(services))
    graph.add_node("abstain", partial(abstain, services=services))
    graph.add_node("generate", partial(generate, services=services))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "decide_retrieval")
    graph.add_conditional_edges("decide_retrieval", after_decision, ["retrieve", "generate"])
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges(
        "grade", by_relevance, ["retrieve", "rewrite_query", "build_candidates"]
    )
    graph.add_edge("rewrite_query", "search_web")
    graph.add_edge("search_web", "select_web_strips")
    graph.add_edge("select_web_strips", "build_candidates")
    graph.add_conditional_edges(
        "build_candidates", to_drafts, ["draft", "draft_segments", "abstain"]
    )
    graph.add_edge("draft", "judge")
    graph.add_conditional_edges("judge", by_drafts, ["select_candidate", "abstain"])
    graph.add_conditional_edges("draft_segments", by_drafts, ["select_candidate", "abstain"])
    graph.add_conditional_edges("select_candidate", by_judgement, ["reflect", END])
    for last in ("reflect", "abstain", "generate"):
        graph.add_edge(last, END)
    return pausable(graph.compile(name="self_rag"))


def after_decision(state: State) -> str:
    """What needs no retrieval is answered at once, in one call that nothing judges."""
    retrieval = state.get("retrieval")
    return "retrieve" if retrieval is None or retrieval.decision else "generate"


def by_relevance(state: State) -> str:
    """Relevant passages are drafted from; without any, retrieval goes on: index, then web."""
    plan, documents = state.get("plan"), state.get("documents", [])
    if plan is None:
        return "build_candidates"
    has_relevant = bool(relevant(documents, plan.thresholds))
    if not has_relevant and not state.get("index_exhausted", True):
        return "retrieve"
    wants_web = searches_web(None if has_relevant else "incorrect", plan)
    return "rewrite_query" if wants_web else "build_candidates"


def to_drafts(state: State) -> list[Send] | str:
    """One draft a candidate, in parallel, the best first; a long answer grows from all."""
    plan, candidates = state.get("plan"), state.get("candidates", [])
    if plan and plan.drafts_segments and candidates:
        return "draft_segments"
    return [Send("draft", {**state, "draft": each}) for each in candidates] or "abstain"


def by_drafts(state: State) -> str:
    return "select_candidate" if state.get("candidates") else "abstain"


def by_judgement(state: State) -> str:
    """Where the critic has failed already, it is not asked again."""
    return "reflect" if state["draft"].judgement else END


def build_draft_segments(
    services: Services,
) -> CompiledStateGraph[State, Context, SubgraphInput, LongAnswerOutput]:
    graph = StateGraph(
        State, context_schema=Context, input_schema=SubgraphInput, output_schema=LongAnswerOutput
    )
    graph.add_node("extend", partial(extend, services=services))
    graph.add_node("prune", partial(prune, services=services))
    graph.add_node("retrieve_more", partial(retrieve_more, services=services))

    graph.add_edge(START, "extend")
    graph.add_edge("extend", "prune")
    graph.add_conditional_edges("prune", by_paths, ["extend", "retrieve_more", END])
    graph.add_edge("retrieve_more", "extend")
    return pausable(graph.compile(name="draft_segments"))


def by_paths(state: State) -> str:
    """Grow, with new evidence where a path asks for it, until all paths are finished."""
    growing = [path for path in state.get("paths", []) if not path.is_finished]
    if not growing:
        return END
    plan = state.get("plan")
    asks = plan and any(path.wants_retrieval(plan.bars.retrieval) for path in growing)
    return "retrieve_more" if asks else "extend"
