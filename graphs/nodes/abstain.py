"""Abstain where there is no knowledge to draft from, or no draft came of it."""

from langgraph.runtime import Runtime

from graphs.nodes.generate import abstention, streamed
from graphs.ports import Services
from graphs.state import Context, Reflecting, State


async def abstain(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """A sentence in the language of the answer that admits not knowing.

    It is the budget's where a model might have written what could not be quoted.
    """
    lacked_calls = any(draft.for_want_of_calls for draft in state.get("drafts", []))
    changed = abstention(state, "budget" if lacked_calls else "no_evidence")
    streamed(runtime).tell(changed["answer"])
    return {**changed, "candidates": [], "generator": services.chat_name}
