"""What CRAG does to what was retrieved: grade it, then refine it, search the web, or both."""

from collections.abc import Sequence
from functools import partial

from langgraph.graph import StateGraph
from langgraph.runtime import Runtime

from graphs.grading.actions import searches_again, searches_web
from graphs.nodes.collect import collect
from graphs.nodes.grade import grade
from graphs.nodes.refine import refine
from graphs.nodes.rewrite_query import rewrite
from graphs.nodes.search_web import search_web
from graphs.nodes.select_web_strips import select
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State, tunables
from graphs.types import Usage
from graphs.workflows.lookup import first_wanted


def add_correction(
    graph: StateGraph[State, Context, Question, Answer], services: Services, then: Sequence[str]
) -> None:
    """The nodes from `grade` to the corrected knowledge, for the first wanted node of `then`.

    Those must be deferred: where both branches run, they wait for the slower one.
    """
    graph.add_node("grade", partial(grade, services=services))
    graph.add_node("refine", partial(refine, services=services))
    graph.add_node("collect", partial(collect, services=services))
    graph.add_node("rewrite", partial(rewrite, services=services))
    graph.add_node("search_web", partial(search_web, services=services))
    graph.add_node("select", partial(select, services=services))

    def by_action(state: State, runtime: Runtime[Context]) -> list[str]:
        """Correct refines, Incorrect goes to the web, Ambiguous does both.

        Where a search began beside grading, its pages stand for those of a rewritten query.
        """
        action, branches = state.get("action"), []
        if action in ("correct", "ambiguous"):
            branches.append("refine")
        if searches_web(action, tunables(runtime), services.web_search is not None):
            branches.append("collect" if state.get("search_ahead") else "rewrite")
        return branches or [by_knowledge(state, runtime)]

    def by_pages(state: State, runtime: Runtime[Context]) -> str:
        """What was found is graded; where nothing was, keywords may find more."""
        again = searches_again(state.get("usage", Usage()), tunables(runtime))
        return "rewrite" if again and not state.get("web_pages") else "select"

    def by_knowledge(_: State, runtime: Runtime[Context]) -> str:
        return first_wanted(then, tunables(runtime))

    graph.add_conditional_edges("grade", by_action, ["refine", "collect", "rewrite", *then])
    graph.add_conditional_edges("collect", by_pages, ["select", "rewrite"])
    graph.add_edge("rewrite", "search_web")
    graph.add_edge("search_web", "select")
    graph.add_conditional_edges("refine", by_knowledge, list(then))
    graph.add_conditional_edges("select", by_knowledge, list(then))
