"""Decide whether the question needs retrieval at all (Self-RAG 3.3)."""

from langgraph.runtime import Runtime

from graphs.critics.factory import critic_of
from graphs.errors import CriticFailed
from graphs.leaning import is_courtesy
from graphs.ports import Services
from graphs.reflection.budget import is_spent, writes_by_model
from graphs.reflection.scores import needs_retrieval
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.types import Degraded, Retrieval, Usage


async def decide(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The run's mode, or the critic's word against the threshold; in doubt it retrieves.

    Without a language model, or calls left for it, there is nothing but quotation: every question
    retrieves but thanks and greetings, which ask nothing.
    """
    context = tunables(runtime)
    if context.retrieval in ("always", "never"):
        wanted = context.retrieval == "always"
        return {"retrieval": Retrieval(wanted, float(wanted))}
    critic = critic_of(services)
    try:
        share, usage = await critic.needs_retrieval(asked(state))
    except CriticFailed as error:
        failed = Degraded(error.component, str(error))
        return {"retrieval": Retrieval(True, 1.0), "degraded": [failed]}
    spent = state.get("usage", Usage()) + usage
    can_write = writes_by_model(services) and not is_spent(spent, context)
    if not can_write:
        return {"retrieval": Retrieval(not is_courtesy(state["question"]), share), "usage": usage}
    decision = needs_retrieval(share, context.bars(critic.bars).retrieval)
    return {"retrieval": Retrieval(decision, share), "usage": usage}
