"""Draft a long answer segment by segment, a beam over passages (Self-RAG 3.3, "tree-decoding")."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.draft_segments import extend, prune, retrieve_more
from graphs.ports import Services
from graphs.state import Context, LongAnswerInput, LongAnswerOutput, State
from graphs.workflows.breakpoints import pausable


def build_draft_segments(
    services: Services,
) -> CompiledStateGraph[State, Context, LongAnswerInput, LongAnswerOutput]:
    graph = StateGraph(
        State, context_schema=Context, input_schema=LongAnswerInput, output_schema=LongAnswerOutput
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
