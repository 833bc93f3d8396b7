"""Quote the knowledge where the critic rejected all that a language model wrote of it."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import CriticFailed
from graphs.generation.answer import EXTRACTIVE, NO_LISTENER, quote, request_of
from graphs.grading.strips import join
from graphs.nodes.critique import judged
from graphs.nodes.prepare import plan_of
from graphs.ports import Services
from graphs.reflection.scores import accepted, answered
from graphs.state import Context, State, effective_question, options_of, total_usage
from graphs.text.language import language_of
from graphs.text.sentences import plain
from graphs.types import Degraded, Judgement

REFUSES = -0.9
"""Utility (-1 to 1) of an answer that admits not knowing: 49 of 50 such answers are below."""
QUOTED = "The critic rejected what the language model wrote, so the knowledge is quoted instead."


def has_only_rejected(state: State, services: Services) -> bool:
    """Whether revision ended without a draft that the critic accepts, and there is knowledge.

    A draft that no revision was tried of stays, whatever the critic says of it (`max_critic` 0).
    """
    rounds, why = state.get("critique", []), state.get("stopped_by")
    was_revised = why == "unchanged" or (why == "max_critic" and len(rounds) > 1)
    return (
        services.writes_by_model
        and was_revised
        and bool(rounds and not rounds[-1].accepted)
        and bool(state["draft"].knowledge)
        and state["draft"].generator != EXTRACTIVE
        and not _refuses(state.get("judgement"))
    )


def _refuses(judgement: Judgement | None) -> bool:
    """Whether the best draft admits not knowing, which is better than a quotation beside it."""
    return bool(judgement and judgement.utility is not None and judgement.utility < REFUSES)


async def quote_instead(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The answer as it would be without a language model, if the critic accepts it.

    It is judged, but is no round of revision: `critique` tells what became of the model's drafts.
    Nothing is quoted in another language than the answer's, or of a closed set, and no critic's
    judgement is compared with that of its stand-in.
    """
    context = options_of(runtime)
    if context.choices or context.is_spent(total_usage(state)):
        return {}
    plan = plan_of(state, context, services)
    strips = join(
        state.get("internal_strips", []), state.get("web_strips", []), context.evidence_tokens
    )
    written = await quote(request_of(state, strips, plan, context), services, NO_LISTENER)
    update: State = {"usage": written.usage, "degraded": list(written.degraded)}
    if (
        plain(written.answer) in {"", *state.get("seen", [])}
        or language_of(written.answer) != plan.language
    ):
        return update
    draft = written.as_draft(strips)
    try:
        result = await judged(effective_question(state), [draft], plan, context, services)
    except CriticFailed as error:
        degraded = [*written.degraded, error.degraded]
        return {"usage": written.usage + error.usage, "degraded": degraded}
    (judgement,), degraded = result.judgements, [*written.degraded, *result.degraded]
    if accepted(judgement, result.plan.bars) and result.plan.critic_failed == plan.critic_failed:
        update = answered(replace(draft, judgement=judgement), context)
        degraded.append(Degraded("generator", QUOTED))
    return {
        **update,
        "plan": result.plan,
        "usage": written.usage + result.usage,
        "degraded": degraded,
    }
