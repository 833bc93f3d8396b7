"""Select the draft to go on with: the best critique score, or the answer with most votes."""

from langgraph.runtime import Runtime

from graphs.generation.answer import streamed
from graphs.reflection.selection import selected
from graphs.state import Context, State, options_of
from graphs.types import Usage


async def select_candidate(state: State, runtime: Runtime[Context]) -> State:
    """The chosen draft as the answer so far; told now if several were written side by side."""
    update = selected(state.get("candidates", []), options_of(runtime))
    if len(state.get("drafts", [])) != 1:  # a single draft was told as it was written
        streamed(runtime).token(update["answer"])
    return {**update, "spent": state.get("usage", Usage())}
