"""Cite what a language model wrote without naming its sources, where no critic follows."""

from langgraph.runtime import Runtime

from graphs.critics.evaluator import EvaluatorCritic, sentences_of
from graphs.errors import CriticFailed
from graphs.generation.answer import EXTRACTIVE
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.text.citations import citations_in, with_sources
from graphs.types import Degraded

UNCITED = "The answer's sentences could not be traced to their sources: {}"


def lacks_citations(state: State) -> bool:
    """Whether a language model wrote sentences from knowledge that name no source."""
    if state.get("stopped_by") != "answered":
        return False
    draft = state["draft"]
    return (
        state.get("answer") == draft.answer  # not edited by hand since
        and bool(draft.knowledge)
        and draft.generator != EXTRACTIVE
        and draft.judgement is None
        and any(not it.cites and not it.is_heading for it in sentences_of(draft))
    )


async def cite(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """Each of these sentences gets the strip that supports it best, if the evaluator finds one.

    That judges nothing: what no strip supports stays as it is. A closed set's answer is the
    caller's own text, which no marker stands in.
    """
    draft = state["draft"]
    if options_of(runtime).choices:
        return {}
    bars = (services.critic_stand_in or services.critic).bars
    critic = EvaluatorCritic(services.grader_stand_in or services.evaluator, bars)
    try:
        sources, usage = await critic.sources(effective_question(state), draft)
    except CriticFailed as error:
        return {"degraded": [Degraded("evaluator", UNCITED.format(error))], "usage": error.usage}
    answer = with_sources(draft.answer, sources)
    return {
        "answer": answer,
        "citations": citations_in(answer, draft.knowledge, draft.cites),
        "usage": usage,
    }
