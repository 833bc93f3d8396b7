"""Abstain where there is no knowledge to draft from, or no draft came of it."""

from langgraph.runtime import Runtime

from graphs.nodes.generate import abstention, streamed
from graphs.ports import Services
from graphs.state import Context, Reflecting, State


async def abstain(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """A sentence in the question's language that admits not knowing."""
    changed = abstention(state["question"])
    streamed(runtime).tell(changed["answer"])
    return {**changed, "candidates": [], "generator": services.chat_name}
