"""Choose the draft to go on with: the best score, or the answer with most votes."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.nodes.generate import streamed
from graphs.reflection.scores import choose as chosen_of
from graphs.state import Context, Reflecting, State, tunables
from graphs.text.citations import citations_in
from graphs.types import Draft, Usage


async def choose(state: State, runtime: Runtime[Context]) -> Reflecting:
    """The chosen draft as the answer so far; told now if several were written side by side."""
    changed = chosen_from(state.get("candidates", []), tunables(runtime))
    if len(state.get("drafts", [])) != 1:  # a single draft was told as it was written
        streamed(runtime).tell(changed["answer"])
    return {**changed, "spent": state.get("usage", Usage())}


def chosen_from(drafts: Sequence[Draft], context: Context) -> Reflecting:
    """What the chosen draft makes of the run; there must be one."""
    chosen = replace(chosen_of(drafts, closed=bool(context.choices)), chosen=True)
    return {
        "candidates": [chosen if draft.n == chosen.n else draft for draft in drafts],
        "draft": chosen,
        "answer": chosen.answer,
        "citations": citations_in(chosen.answer, chosen.knowledge),
        "generator": chosen.generator,
        "stopped_by": chosen.stopped_by,
    }
