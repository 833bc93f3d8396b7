"""Runs a graph as the service does and keeps what could be seen of it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphs.ports import Services
from graphs.state import Context
from graphs.types import Message
from graphs.workflows.reflect import build_reflection
from graphs.workflows.registry import WORKFLOWS


@dataclass
class Trace:
    """Nodes in the order they ended, tokens and retractions, progress, the graph's output.

    `inner` are the nodes of each subgraph, which `nodes` has as one.
    """

    nodes: list[str] = field(default_factory=list)
    inner: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    said: list[dict[str, Any]] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)
    output: dict[str, Any] = field(default_factory=dict)

    @property
    def answer(self) -> str:
        return str(self.output["answer"])

    @property
    def streamed(self) -> str:
        """What a client shows at the end: the tokens since the last retraction."""
        text = ""
        for event in self.said:
            text = "" if "retract" in event else text + event["token"]["text"]
        return text

    @property
    def failed(self) -> list[str]:
        return [entry.component for entry in self.output["degraded"]]


async def traced(
    services: Services,
    question: str,
    workflow: str = "crag",
    history: Sequence[Message] = (),
    **options: Any,
) -> Trace:
    trace = Trace()
    build = build_reflection if workflow == "reflect" else WORKFLOWS[workflow].build
    async for part in build(services).astream(
        {"question": question, "history": list(history)},
        context=Context(**options),
        stream_mode=["tasks", "custom", "values"],
        subgraphs=True,
        version="v2",
    ):
        if part["type"] == "custom":
            if progress := part["data"].get("progress"):
                trace.progress.append(progress)
            else:
                trace.said.append(part["data"])
        elif part["type"] == "tasks" and "result" in part["data"]:
            subgraph = part["ns"][-1].split(":")[0] if part["ns"] else ""
            (trace.inner[subgraph] if subgraph else trace.nodes).append(part["data"]["name"])
        elif part["type"] == "values" and not part["ns"]:
            trace.output = dict(part["data"])
    return trace
