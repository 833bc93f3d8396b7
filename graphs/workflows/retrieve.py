"""Retrieve: the question made to stand alone, expanded, searched for, the passages reranked.

A subgraph that every workflow begins with; all but `search` are optional steps of a run.
"""

from functools import lru_cache, partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.queries import contextualise, expand
from graphs.nodes.search import rerank, search
from graphs.ports import Services
from graphs.state import Context, RetrieveOutput, State, SubgraphInput
from graphs.workflows.breakpoints import pausable


@lru_cache(maxsize=1)
def build_retrieve(
    services: Services,
) -> CompiledStateGraph[State, Context, SubgraphInput, RetrieveOutput]:
    """Compiled once for all workflows of the same services."""
    graph = StateGraph(
        State, context_schema=Context, input_schema=SubgraphInput, output_schema=RetrieveOutput
    )
    graph.add_node("contextualise", partial(contextualise, services=services))
    graph.add_node("expand", partial(expand, services=services))
    graph.add_node("search", partial(search, services=services))
    graph.add_node("rerank", partial(rerank, services=services))

    graph.add_conditional_edges(START, first_step, ["contextualise", "expand", "search"])
    graph.add_conditional_edges("contextualise", after_contextualise, ["expand", "search"])
    graph.add_edge("expand", "search")
    graph.add_conditional_edges("search", after_search, ["rerank", END])
    graph.add_edge("rerank", END)
    return pausable(graph.compile(name="retrieve"))


def first_step(state: State) -> str:
    """A follow-up is worded by the language model, where there is one; but once a run."""
    plan, is_first = state.get("plan"), not state.get("retrievals", 0)
    return (
        "contextualise" if plan and plan.contextualises and is_first else after_contextualise(state)
    )


def after_contextualise(state: State) -> str:
    """Queries are made of the question once a run, where it wants more than the question."""
    plan, is_first = state.get("plan"), not state.get("retrievals", 0)
    return "expand" if plan and plan.expands and is_first else "search"


def after_search(state: State) -> str:
    plan = state.get("plan")
    return "rerank" if plan and plan.reranks else END
