"""The workflows by name, as data."""

from collections.abc import Callable
from dataclasses import dataclass

from langgraph.graph.state import CompiledStateGraph

from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.crag import build_crag
from graphs.workflows.illustrate import build_illustrate
from graphs.workflows.rag import build_rag
from graphs.workflows.self_crag import build_self_crag
from graphs.workflows.self_rag import build_self_rag

Graph = CompiledStateGraph[State, Context, Question, Answer]


@dataclass(frozen=True, slots=True)
class Workflow:
    """A graph that can be asked; `description` is shown to users."""

    name: str
    description: str
    build: Callable[[Services], Graph]


WORKFLOWS: dict[str, Workflow] = {
    workflow.name: workflow
    for workflow in (
        Workflow("rag", "Retrieve, then generate: the baseline without correction.", build_rag),
        Workflow(
            "crag",
            "Corrective RAG: grade what was retrieved; refine it when Correct, search the web "
            "when Incorrect, do both when Ambiguous; then generate.",
            build_crag,
        ),
        Workflow(
            "self_rag",
            "Self-RAG: retrieve where needed, draft from each relevant passage, judge the drafts, "
            "choose one; then criticise and revise it until it is accepted.",
            build_self_rag,
        ),
        Workflow(
            "self_crag",
            "Self-CRAG: correct the knowledge as crag does, then draft, judge, choose, criticise "
            "and revise as self_rag does.",
            build_self_crag,
        ),
        Workflow(
            "illustrate",
            "Images: return the stored image for a text, or the stored caption for an image; only "
            "where none is similar enough is a model asked to make or describe one.",
            build_illustrate,
        ),
    )
}
DEFAULT_WORKFLOW = "self_crag"
IMAGE_WORKFLOW = "illustrate"
"""The one that takes a question's image."""
