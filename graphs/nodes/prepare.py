"""Prepare the run: check the question, forget the run before it, settle the plan."""

from langgraph.runtime import Runtime

from graphs.errors import InvalidQuestion
from graphs.grading.plan import make_plan
from graphs.ports import Services
from graphs.state import Context, State, options_of, reset_run_state
from graphs.text.followups import standalone
from graphs.types import Message

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
    update["plan"] = make_plan(update, context, services)
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
    """The history that came with the question; else what was said on the thread before it."""
    history = state.get("history", [])
    if "last_question" not in state or history != state.get("last_history", []):
        return history
    return [
        *history,
        {"role": "user", "content": state["last_question"]},
        {"role": "assistant", "content": state.get("answer", "")},
    ]
