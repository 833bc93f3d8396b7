"""Reflection: critique the draft, then accept it, or criticise and revise, in a few rounds."""

from functools import lru_cache, partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.critique import criticise, critique
from graphs.nodes.generate import generate
from graphs.nodes.prepare import prepare
from graphs.nodes.quote import has_only_rejected, quote_instead
from graphs.nodes.revise import revise
from graphs.ports import Services
from graphs.state import Answer, Context, Question, ReflectOutput, State, SubgraphInput
from graphs.workflows.breakpoints import pausable
from graphs.workflows.retrieve import build_retrieve


@lru_cache(maxsize=1)
def build_reflect(
    services: Services,
) -> CompiledStateGraph[State, Context, SubgraphInput, ReflectOutput]:
    """The subgraph of crag, self_rag and self_crag; it ends within max_critic revisions.

    Compiled once for all workflows of the same services.
    """
    graph = StateGraph(
        State, context_schema=Context, input_schema=SubgraphInput, output_schema=ReflectOutput
    )
    graph.add_node("critique", partial(critique, services=services))
    graph.add_node("criticise", partial(criticise, services=services))
    graph.add_node("revise", partial(revise, services=services))
    graph.add_node("quote", partial(quote_instead, services=services))

    graph.add_edge(START, "critique")
    after_critique, after_revision = (
        partial(going_on, to=node, services=services) for node in ("criticise", "critique")
    )
    graph.add_conditional_edges("critique", after_critique, ["criticise", "quote", END])
    graph.add_edge("criticise", "revise")
    graph.add_conditional_edges("revise", after_revision, ["critique", "quote", END])
    graph.add_edge("quote", END)
    return pausable(graph.compile(name="reflect"))


def going_on(state: State, *, to: str, services: Services) -> str:
    """A rejected draft is criticised, a new one judged, while rounds and budget last.

    At the end the best draft stays; where all of a language model's were rejected, the knowledge is
    quoted beside it.
    """
    if not state.get("has_ended"):
        return to
    return "quote" if has_only_rejected(state, services) else END


def build_reflection(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    """`reflect` on its own, for Studio: a draft from what is retrieved, then the loop."""
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("prepare", partial(prepare, services=services))
    graph.add_node("retrieve", build_retrieve(services))
    graph.add_node("generate", partial(generate, services=services))
    graph.add_node("reflect", build_reflect(services))

    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_conditional_edges("generate", by_draft, ["reflect", END])
    graph.add_edge("reflect", END)
    return pausable(graph.compile(name="reflect"))


def by_draft(state: State) -> str:
    return "reflect" if state.get("stopped_by") == "answered" else END
