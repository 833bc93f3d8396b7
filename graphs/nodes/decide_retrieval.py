"""Decide whether the question needs retrieval at all (Self-RAG 3.3)."""

from langgraph.runtime import Runtime

from graphs.errors import CriticFailed
from graphs.nodes.prepare import plan_of
from graphs.ports import Services
from graphs.reflection.scores import needs_retrieval
from graphs.state import Context, State, effective_question, options_of
from graphs.text.questions import is_courtesy
from graphs.types import Retrieval, RetrievalMode, Usage


async def decide_retrieval(
    state: State,
    runtime: Runtime[Context],
    *,
    services: Services,
    default: RetrievalMode | None = "adaptive",
) -> State:
    """The run's mode, or the critic's word against the threshold; in doubt it retrieves.

    `default` is the workflow's mode; None retrieves without a decision. Without a language model,
    or calls left for it, there is nothing but quotation: every question retrieves but thanks and
    greetings, which ask nothing.
    """
    context, spent = options_of(runtime), state.get("usage", Usage())
    mode = context.retrieval or default
    if mode is None:
        return {"retrieval": None, "spent": spent}
    if mode == "adaptive" and state.get("passages"):
        mode = "always"  # whoever gives knowledge wants it to be read
    if mode != "adaptive":
        is_needed = mode == "always"
        return {"retrieval": Retrieval(is_needed, float(is_needed)), "spent": spent}
    try:
        share, usage = await services.critic.needs_retrieval(effective_question(state))
    except CriticFailed as error:
        return {
            "retrieval": Retrieval(True, 1.0),
            "degraded": [error.degraded],
            "usage": error.usage,
            "spent": spent + error.usage,
        }
    if services.writes_by_model and not context.is_spent(spent + usage):
        decision = needs_retrieval(share, plan_of(state, context, services).bars.retrieval)
    else:
        decision = not is_courtesy(state["question"])
    return {"retrieval": Retrieval(decision, share), "usage": usage, "spent": spent + usage}
