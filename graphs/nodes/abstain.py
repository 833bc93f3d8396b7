"""Abstain where there is no knowledge to draft from, or no draft came of it."""

from langgraph.runtime import Runtime

from graphs.generation.answer import abstention, streamed
from graphs.grading.plan import plan_of
from graphs.ports import Services
from graphs.state import Context, State, options_of
from graphs.types import StoppedBy


async def abstain(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """A sentence in the language of the answer that admits not knowing.

    The budget stopped the run where a model might have written what could not be quoted.
    """
    plan = plan_of(state, options_of(runtime), services)
    lacked_calls = any(draft.budget_exhausted for draft in state.get("drafts", []))
    why: StoppedBy = "budget" if lacked_calls else "no_evidence"
    answer = abstention(state["question"], plan.language, why)
    streamed(runtime).token(answer)
    return {
        "answer": answer,
        "citations": [],
        "stopped_by": why,
        "candidates": [],
        "generator": services.chat_name,
    }
