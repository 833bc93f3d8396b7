"""Corrective RAG (Yan et al., arXiv 2401.15884): grade what was retrieved, then correct it."""

from collections.abc import Sequence
from functools import partial

from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graphs.decide import searches_again, searches_web
from graphs.lookup import add_lookup, first_wanted
from graphs.nodes.collect import collect
from graphs.nodes.compress import compress
from graphs.nodes.generate import generate
from graphs.nodes.grade import grade
from graphs.nodes.refine import refine
from graphs.nodes.rewrite import rewrite
from graphs.nodes.search_web import search_web
from graphs.nodes.select import select
from graphs.ports import Services
from graphs.reflect import build_reflect
from graphs.state import Answer, Context, Question, State, tunables
from graphs.types import Usage


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


def build_crag(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("compress", partial(compress, services=services), defer=True)
    graph.add_node("generate", partial(generate, services=services), defer=True)
    graph.add_node("reflect", build_reflect(services))
    add_lookup(graph, services, then=["grade"], decides=may_skip_retrieval)
    add_correction(graph, services, then=["compress", "generate"])

    def by_option(state: State, runtime: Runtime[Context]) -> str:
        """Reflection is asked for by an option; an abstention is not reflected on."""
        has_draft = state.get("stopped_by") == "answered"
        return "reflect" if tunables(runtime).reflect and has_draft else END

    graph.add_edge("compress", "generate")
    graph.add_conditional_edges("generate", by_option, ["reflect", END])
    graph.add_edge("reflect", END)
    return graph.compile(name="crag")


def may_skip_retrieval(context: Context) -> bool:
    """crag looks everything up unless told otherwise."""
    return context.retrieval in ("adaptive", "never")
