"""Prepare a run: validate the question, resolve a follow-up by rule, settle the run's plan once."""

from langgraph.runtime import Runtime

from graphs.errors import InvalidQuestion
from graphs.ports import Captioner, ImageMaker, Services
from graphs.state import Context, State, effective_question, options_of, reset_run_state
from graphs.text.language import answer_language
from graphs.text.questions import standalone, subquestions_of
from graphs.types import Message, Plan

MAX_QUESTION_CHARS = 8000


async def prepare(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """Thresholds, bars, language and sub-questions of the run, and the follow-up made whole.

    On a thread that has answered before, its last turn joins the dialogue, unless one is given.
    Raises InvalidQuestion.
    """
    context, question = options_of(runtime), _checked(state)
    history = _dialogue(state)
    update = reset_run_state(state)
    update |= {
        "question": question,
        "history": history,
        "last_question": question,
        "last_history": history,
    }
    if context.follow_ups and (joined := standalone(question, history)):
        update["standalone_question"] = joined
    plan_input: State = {**update, "image": state.get("image", "")}
    update["plan"] = make_plan(plan_input, context, services)
    return update


def _checked(state: State) -> str:
    question = state.get("question", "")
    if not isinstance(question, str) or not question.strip():
        raise InvalidQuestion("question is empty: give a text of 1 to 8,000 characters.")
    if len(question) > MAX_QUESTION_CHARS:
        raise InvalidQuestion(
            f"question has {len(question):,} characters; at most {MAX_QUESTION_CHARS:,} are read."
        )
    return question


def _dialogue(state: State) -> list[Message]:
    """The history sent with the question; else the earlier turns of its thread."""
    history = state.get("history", [])
    if "last_question" not in state or history != state.get("last_history", []):
        return history
    turns: list[Message] = [{"role": "user", "content": state["last_question"]}]
    if answer := state.get("answer"):
        turns.append({"role": "assistant", "content": answer})
    return [*history, *turns]


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
        image_threshold=_image_threshold(state, context, services),
        generates_image=context.generate_image and _image_model(state, services) is not None,
    )


def _image_threshold(state: State, context: Context, services: Services) -> float:
    if context.image_threshold is not None or services.images is None:
        return 1.0 if context.image_threshold is None else context.image_threshold
    own = services.images.thresholds
    return own.image if state.get("image") else own.text


def _image_model(state: State, services: Services) -> ImageMaker | Captioner | None:
    return services.captioner if state.get("image") else services.image_maker


def parts_to_grade(question: str, context: Context) -> tuple[str, ...]:
    """Sub-questions that texts are graded by beside the question; none where it has no parts."""
    parts = subquestions_of(question) if context.ablation.grade_parts else []
    return tuple(parts) if len(parts) > 1 else ()
