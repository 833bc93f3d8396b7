"""Breakpoints inside subgraphs: LangGraph itself heeds those of the outermost graph alone.

`interrupt_before` and `interrupt_after` of a run travel down in its config, so that a breakpoint on
`critique` holds where it stands, inside `reflect`.
"""

from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

BREAKPOINTS = "__breakpoints"

G = TypeVar("G", bound=CompiledStateGraph[Any, Any, Any, Any])


class PausableGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that hands its run's breakpoints on to its subgraphs."""

    def copy(self, update: dict[str, Any] | None = None) -> Any:
        copied = super().copy(update)
        copied._serde_allowlist = self._serde_allowlist
        return copied

    def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        interrupt_before: Any = None,
        interrupt_after: Any = None,
        **kwargs: Any,
    ) -> Any:
        configurable = (config or {}).get("configurable", {})
        before, after = configurable.get(BREAKPOINTS, (None, None))
        before, after = interrupt_before or before, interrupt_after or after
        if before or after:
            handed_on = {**configurable, BREAKPOINTS: (before, after)}
            config = cast("RunnableConfig", {**(config or {}), "configurable": handed_on})
        return super().astream(
            input, config, interrupt_before=before, interrupt_after=after, **kwargs
        )


def pausable(graph: G) -> G:
    """The same compiled graph, whose breakpoints hold in its subgraphs too."""
    graph.__class__ = PausableGraph  # type: ignore[assignment]
    return graph
