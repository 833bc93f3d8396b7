"""Grade every passage with the evaluator and choose the action (CRAG 4.2, 4.3)."""

from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.decide import choose_action
from graphs.errors import EvaluatorFailed
from graphs.knowledge import as_judged
from graphs.ports import Services
from graphs.state import Answer, Context, State, tunables
from graphs.types import Degraded, Passage, Usage


def graded(passages: Sequence[Passage], scores: Sequence[float | None]) -> list[Passage]:
    """Best first; passages that could not be scored are left out."""
    scored = [
        replace(passage, score=score)
        for passage, score in zip(passages, scores, strict=True)
        if score is not None
    ]
    return sorted(scored, key=lambda passage: -passage.score)


async def grade(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """Graded documents and the action; no action, and so said, where the evaluator fails."""
    context, passages = tunables(runtime), state.get("documents", [])
    pairs = [(state["question"], as_judged(passage, context.grade_titles)) for passage in passages]
    try:
        scores = (await services.evaluator.score("relevance", pairs)).values if pairs else ()
    except EvaluatorFailed as error:
        return {"action": None, "degraded": [Degraded(error.component, str(error))]}
    documents = graded(passages, scores)
    thresholds = context.thresholds(services.evaluator.thresholds)
    changed: Answer = {
        "documents": documents,
        "action": choose_action([doc.score for doc in documents], thresholds, context),
        "usage": Usage(scored_pairs=len(pairs)),
    }
    if unscored := len(passages) - len(documents):
        changed["degraded"] = [Degraded("evaluator", f"{unscored} passages could not be graded.")]
    return changed
