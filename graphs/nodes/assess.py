"""Assess how relevant each passage is (Self-RAG's IsRel)."""

from langgraph.runtime import Runtime

from graphs.nodes.grade import judged
from graphs.ports import Services
from graphs.state import Context, Graded, State, tunables


async def assess(state: State, runtime: Runtime[Context], *, services: Services) -> Graded:
    """The documents by their grades, without CRAG's action; as they were where grading fails."""
    return {**await judged(state, tunables(runtime), services), "action": None}
