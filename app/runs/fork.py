"""Fork of a run: the same question from one of its steps on, with other options.

What the former run had found up to that step is put into the graph's state, as if the step had just
ended, so that its router chooses the way anew and nothing before it is done again.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_json

from app.errors import InvalidRequest
from app.schemas.runs import ForkStep
from graphs.grading.actions import choose_action
from graphs.nodes.prepare import make_plan
from graphs.ports import Services
from graphs.state import Context, State
from graphs.types import Passage, Retrieval

_FOUND = ("standalone_question", "queries", "retrieval", "documents", "grades", "action")
_PASSAGES = TypeAdapter(list[Passage])
_RETRIEVAL = TypeAdapter(Retrieval | None)


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a run begins: after `step` of the run `run_id`, in this state."""

    run_id: str
    step: ForkStep
    state: State


def packed(question: Mapping[str, Any], state: Mapping[str, Any]) -> bytes | None:
    """What a fork needs of a run, compressed; None of a run that retrieved nothing."""
    if not state.get("documents"):
        return None
    results = {name: state[name] for name in _FOUND if name in state}
    return zlib.compress(to_json({"history": question.get("history", []), **results}))


def fork_of(
    run_id: str,
    question: str,
    fork_data: bytes | None,
    step: ForkStep,
    context: Context,
    services: Services,
) -> Fork:
    """The fork of a run from its saved state; the action follows from the saved grades.

    It is graded again where other options make other parts of the question. Raises InvalidRequest
    where the run has no such step.
    """
    if fork_data is None:
        raise InvalidRequest("#/step", "the run has not ended, or retrieved nothing to begin with")
    saved = json.loads(zlib.decompress(fork_data))
    documents = _PASSAGES.validate_python(saved["documents"])
    if step == "grade" and any(passage.relevance is None for passage in documents):
        raise InvalidRequest("#/step", "the run graded nothing: fork it from retrieve")
    state = State(
        question=question,
        history=saved["history"],
        last_question=question,
        last_history=saved["history"],
        standalone_question=saved.get("standalone_question"),
        queries=saved.get("queries", []),
        retrieval=_RETRIEVAL.validate_python(saved.get("retrieval")),
        documents=documents,
        retrievals=1,
    )
    plan = make_plan(state, context, services)
    state["plan"] = plan
    grades = saved.get("grades") or [[passage.relevance for passage in documents]]
    if step == "retrieve" or len(grades) != 1 + len(plan.subquestions):
        return Fork(run_id, "retrieve", state)
    state["grades"] = grades
    if saved.get("action") is not None:
        state["action"] = choose_action(grades, plan.thresholds, context.ablation)
    return Fork(run_id, "grade", state)
