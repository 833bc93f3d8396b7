"""What every workflow begins with: from the question to the passages found for it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from graphs.nodes.contextualise import contextualise
from graphs.nodes.decide_retrieval import decide
from graphs.nodes.expand import expand
from graphs.nodes.rerank import rerank
from graphs.nodes.retrieve import retrieve
from graphs.ports import Services
from graphs.state import Answer, Context, Question, Reflecting, State, begun, opening, tunables

Decides = Callable[[Context], bool]
Node = Callable[..., Awaitable[Reflecting]]


def always(_: Context) -> bool:
    return True


def never(_: Context) -> bool:
    return False


def first_wanted(names: Sequence[str], context: Context) -> str:
    """The first of these nodes that the run wants; all but these three it wants always."""
    unwanted = {
        "expand": not context.expands,
        "rerank": context.rerank == "none",
        "compress": context.compress == "none",
    }
    return next(name for name in names if not unwanted.get(name))


@dataclass(frozen=True, slots=True)
class Ways:
    """Which node follows which, as the run wants it; `then` takes the passages up."""

    then: Sequence[str]
    decides: Decides

    def first(self, state: State, runtime: Runtime[Context]) -> str:
        if tunables(runtime).follow_ups and state.get("history"):
            return "contextualise"
        return self.after_contextualise(state, runtime)

    def after_contextualise(self, _: State, runtime: Runtime[Context]) -> str:
        context = tunables(runtime)
        return "decide" if self.decides(context) else first_wanted(SEARCH, context)

    def after_decide(self, state: State, runtime: Runtime[Context]) -> str:
        found = state.get("retrieval")
        if found is not None and not found.decision:
            return "generate"
        return first_wanted(SEARCH, tunables(runtime))

    def after_retrieve(self, _: State, runtime: Runtime[Context]) -> str:
        return first_wanted(["rerank", *self.then], tunables(runtime))

    def after_rerank(self, _: State, runtime: Runtime[Context]) -> str:
        return first_wanted(self.then, tunables(runtime))


SEARCH = ["expand", "retrieve"]


def add_lookup(
    graph: StateGraph[State, Context, Question, Answer],
    services: Services,
    then: Sequence[str],
    decides: Decides = never,
) -> None:
    """The nodes from START to the passages, which the first wanted node of `then` takes up.

    Each but `retrieve` is entered only where the run wants it. A workflow that ever `decides`
    whether to retrieve has a node `generate`, too, which follows where nothing is looked up.
    """
    ways, to_decide = Ways(then, decides), [] if decides is never else ["decide"]

    def add(name: str, node: Node) -> None:
        """The node; where it is the run's first, it sees the question alone."""

        async def step(state: State, runtime: Runtime[Context]) -> Reflecting:
            if ways.first(state, runtime) != name:
                return await node(state, runtime, services=services)
            return begun(state, await node(opening(state), runtime, services=services))

        graph.add_node(name, step)

    add("contextualise", contextualise)
    add("expand", expand)
    add("retrieve", retrieve)
    add("rerank", rerank)
    graph.add_conditional_edges(START, ways.first, ["contextualise", *to_decide, *SEARCH])
    graph.add_conditional_edges("contextualise", ways.after_contextualise, [*to_decide, *SEARCH])
    if to_decide:
        add("decide", decide)
        graph.add_conditional_edges("decide", ways.after_decide, [*SEARCH, "generate"])
    graph.add_edge("expand", "retrieve")
    graph.add_conditional_edges("retrieve", ways.after_retrieve, ["rerank", *then])
    graph.add_conditional_edges("rerank", ways.after_rerank, list(then))
