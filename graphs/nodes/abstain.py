"""Abstain where there is no knowledge to draft from, or no draft came of it."""

from langgraph.runtime import Runtime

from graphs.budget import quoted_instead
from graphs.nodes.generate import abstention, streamed
from graphs.ports import Services
from graphs.state import Context, Reflecting, State, tunables
from graphs.types import Usage


async def abstain(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """A sentence in the question's language that admits not knowing.

    It is the budget's where a model might have written what could not be quoted.
    """
    usage, drafts = state.get("usage", Usage()), state.get("drafts", [])
    is_quoted = quoted_instead(drafts, usage, tunables(runtime), services)
    changed = abstention(state["question"], "budget" if is_quoted else "no_evidence")
    streamed(runtime).tell(changed["answer"])
    return {**changed, "candidates": [], "generator": services.chat_name}
