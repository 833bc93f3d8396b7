"""What both self_ workflows end in: drafts side by side, judged, one chosen, reflected on."""

from functools import partial

from langgraph.graph import END, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from graphs.critics.factory import critic_of
from graphs.nodes.abstain import abstain
from graphs.nodes.compress import compress
from graphs.nodes.draft import draft
from graphs.nodes.extend import extend
from graphs.nodes.generate import generate
from graphs.nodes.judge import judge
from graphs.nodes.prune import prune
from graphs.nodes.retrieve_more import look
from graphs.nodes.select_candidate import choose
from graphs.ports import Services
from graphs.reflection.budget import calls_left, writes_by_model
from graphs.state import Answer, Context, Question, State, tunables
from graphs.workflows.reflect import build_reflect


def add_beam(graph: StateGraph[State, Context, Question, Answer], services: Services) -> None:
    """The nodes of long answers, from `extend` to `choose` (Self-RAG 3.3)."""
    graph.add_node("extend", partial(extend, services=services))
    graph.add_node("prune", partial(prune, services=services))
    graph.add_node("look", partial(look, services=services))

    def by_paths(state: State, runtime: Runtime[Context]) -> str:
        """Grow, with new evidence where a path asks for it, until all paths are finished."""
        growing = [path for path in state.get("paths", []) if not path.is_finished]
        if not growing:
            return "choose" if state.get("candidates") else "abstain"
        threshold = tunables(runtime).bars(critic_of(services).bars).retrieval
        return "look" if any(path.asks(threshold) for path in growing) else "extend"

    graph.add_edge("extend", "prune")
    graph.add_conditional_edges("prune", by_paths, ["look", "extend", "choose", "abstain"])
    graph.add_edge("look", "extend")


def add_drafts(
    graph: StateGraph[State, Context, Question, Answer],
    services: Services,
    *,
    then_extends: bool = False,
) -> None:
    """The nodes from `gather`, whose candidates are drafted from, to the end.

    `generate` answers a question that needs no retrieval, in one call, and nothing judges it.
    """
    graph.add_node("compress", partial(compress, services=services))
    graph.add_node("draft", partial(draft, services=services))
    graph.add_node("judge", partial(judge, services=services))
    graph.add_node("choose", choose)
    graph.add_node("reflect", build_reflect(services))
    graph.add_node("abstain", partial(abstain, services=services))
    graph.add_node("generate", partial(generate, services=services))

    def to_drafts(state: State, runtime: Runtime[Context]) -> list[Send] | str:
        """One draft a candidate, in parallel, the best first; a long answer grows from all."""
        context, candidates = tunables(runtime), state.get("candidates", [])
        if then_extends and context.beam_depth and candidates and not context.choices:
            return "extend"
        most = calls_left(state, context) if writes_by_model(services) else None
        sent = [Send("draft", State(**{**state, "draft": each})) for each in candidates[:most]]
        return sent or "abstain"

    def after_gather(state: State, runtime: Runtime[Context]) -> list[Send] | str:
        if state.get("candidates") and tunables(runtime).compress != "none":
            return "compress"
        return to_drafts(state, runtime)

    drafting = ["draft", "abstain", *(["extend"] if then_extends else [])]
    graph.add_conditional_edges("gather", after_gather, ["compress", *drafting])
    graph.add_conditional_edges("compress", to_drafts, drafting)
    graph.add_edge("draft", "judge")
    graph.add_conditional_edges("judge", by_drafts, ["choose", "abstain"])
    graph.add_conditional_edges("choose", by_judgement, ["reflect", END])
    for last in ("reflect", "abstain", "generate"):
        graph.add_edge(last, END)


def by_drafts(state: State) -> str:
    return "choose" if state.get("candidates") else "abstain"


def by_judgement(state: State) -> str:
    """Where the critic has failed already, it is not asked again."""
    return "reflect" if state["draft"].judgement else END
