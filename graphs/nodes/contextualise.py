"""Make a follow-up question stand alone, from the dialogue before it."""

from langgraph.runtime import Runtime

from graphs.ports import Services
from graphs.state import Context, Reflecting, State


async def contextualise(
    state: State, runtime: Runtime[Context], *, services: Services
) -> Reflecting:
    return {"standalone_question": None}
