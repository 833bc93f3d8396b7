"""The graphs' topology as Mermaid text; `python -m tests.golden` writes it anew."""

from collections.abc import Mapping
from pathlib import Path

from graphs.workflows.chat import build_messages
from graphs.workflows.reflect import build_reflection
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS
from tests.fakes import services

FOLDER = Path(__file__).parent


def drawings() -> Mapping[str, str]:
    """Every graph's drawing by name, subgraphs opened."""
    graphs = {name: workflow.build(services()) for name, workflow in WORKFLOWS.items()}
    graphs["messages"] = build_messages(graphs[DEFAULT_WORKFLOW])
    graphs["reflect"] = build_reflection(services())
    return {name: graph.get_graph(xray=1).draw_mermaid() for name, graph in graphs.items()}


def write() -> None:
    for name, drawing in drawings().items():
        (FOLDER / f"{name}.mmd").write_text(drawing, encoding="utf-8")
