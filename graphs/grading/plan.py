"""Plan of a run: thresholds, bars, language, sub-questions and optional steps, settled once."""

from graphs.options import Context
from graphs.ports import Services
from graphs.state import State, effective_question
from graphs.text.language import answer_language
from graphs.text.subquestions import subquestions_of
from graphs.types import Plan


def plan_of(state: State, context: Context, services: Services) -> Plan:
    """The run's plan; made here where the state has none, as when a state is edited by hand."""
    return state.get("plan") or make_plan(state, context, services)


def make_plan(state: State, context: Context, services: Services) -> Plan:
    """What the options, the question and the services come to."""
    history = state.get("history", [])
    may_search = services.web_search is not None and context.max_web_searches > 0
    return Plan(
        thresholds=context.thresholds(services.evaluator.thresholds),
        bars=context.bars(services.critic.bars),
        language=answer_language(state["question"], history),
        subquestions=parts_to_grade(effective_question(state), context),
        web=context.web if may_search else "never",
        contextualises=context.follow_ups and bool(history) and services.chat is not None,
        expands=bool(context.expand),
        reranks=context.rerank != "none",
        drafts_segments=context.beam_depth > 0 and not context.choices,
        reflects=context.reflect,
    )


def parts_to_grade(question: str, context: Context) -> tuple[str, ...]:
    """Sub-questions that texts are graded by beside the question; none where it has no parts."""
    parts = subquestions_of(question) if context.ablation.grade_parts else []
    return tuple(parts) if len(parts) > 1 else ()
