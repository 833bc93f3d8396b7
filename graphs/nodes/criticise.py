"""Criticise the rejected draft: say what is wrong with it and what is missing."""

from dataclasses import replace

from graphs.critics.factory import critic_of
from graphs.errors import CriticFailed
from graphs.ports import Services
from graphs.state import Reflecting, State, asked
from graphs.types import Degraded, Judgement


async def criticise(state: State, *, services: Services) -> Reflecting:
    """The critic's words in the last round's entry; its judgement in words where it has none."""
    draft, rounds = state["draft"], list(state["critique"])
    try:
        text, usage = await critic_of(services).criticise(
            asked(state), draft, draft.judgement or Judgement()
        )
    except CriticFailed as error:
        return {"degraded": [Degraded(error.component, str(error))]}
    rounds[-1] = replace(rounds[-1], criticism=text)
    return {"critique": rounds, "usage": usage}
