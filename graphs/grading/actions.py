"""Actions and routes as pure functions: relevance in, what to do out (CRAG, algorithm 1)."""

from collections.abc import Sequence
from dataclasses import replace

from graphs.options import MAX_RETRIEVALS, Ablation, Context
from graphs.types import Action, Passage, Plan, Thresholds, Usage

PAPER_THRESHOLDS: dict[str, Thresholds] = {
    "popqa": Thresholds(upper=0.59, lower=-0.99, strip_floor=-0.5),
    "pubhealth": Thresholds(upper=0.5, lower=-0.91, strip_floor=-0.5),
    "arc": Thresholds(upper=0.5, lower=-0.91, strip_floor=-0.5),
    "biography": Thresholds(upper=0.95, lower=-0.91, strip_floor=-0.5),
}
"""The authors' thresholds for the authors' evaluator (CRAG, appendix B.3)."""


def action_of(scores: Sequence[float], upper: float, lower: float) -> Action:
    """Correct from the first score at `upper`, Incorrect when all lie below `lower`."""
    if any(score >= upper for score in scores):
        return "correct"
    if any(score >= lower for score in scores):
        return "ambiguous"
    return "incorrect"


def choose_action(
    relevance: Sequence[Sequence[float | None]], thresholds: Thresholds, ablation: Ablation
) -> Action:
    """The action under the run's ablation switches (CRAG, tables 2 and 11).

    `relevance` holds a row of the documents' scores by the question, then one for each of its
    sub-questions.
    """
    if ablation.only_action != "any":
        return ablation.only_action
    if ablation.without_action == "ambiguous":
        thresholds = replace(thresholds, lower=thresholds.upper)
    action = joint_action(
        [
            action_of([s for s in row if s is not None], thresholds.upper, thresholds.lower)
            for row in relevance
        ]
    )
    if ablation.without_action == "ambiguous":
        return "correct" if action == "ambiguous" else action
    return "ambiguous" if action == ablation.without_action else action


def joint_action(actions: Sequence[Action]) -> Action:
    """Of the whole question's action and those of its parts.

    Correct where the whole question or all of its parts are answered, Incorrect where nothing is.
    """
    whole, *parts = actions
    if whole == "correct" or (parts and all(action == "correct" for action in parts)):
        return "correct"
    return "incorrect" if all(action == "incorrect" for action in actions) else "ambiguous"


def searches_web(action: Action | None, plan: Plan) -> bool:
    """Whether this action, in this run, goes to the web."""
    return plan.web == "always" or (plan.web == "auto" and action in ("incorrect", "ambiguous"))


def speculates(context: Context, plan: Plan, passages: Sequence[Passage]) -> bool:
    """Whether to search while grading: not where the action, and so the path, is known already."""
    only = context.ablation.only_action
    likely: Action = "ambiguous" if only == "any" else only
    return context.speculative_search and bool(passages) and searches_web(likely, plan)


def searches_again(usage: Usage, context: Context) -> bool:
    """Whether keywords are searched where the speculative search brought nothing."""
    if usage.web_searches == 0:
        return True  # it was lost: the web has not been asked
    return context.ablation.rewriting and usage.web_searches < context.max_web_searches


def relevant(documents: Sequence[Passage], thresholds: Thresholds) -> list[Passage]:
    """Those that an action other than Incorrect could rest on; all where nothing graded them."""
    return [p for p in documents if p.relevance is None or p.relevance >= thresholds.lower]


def is_exhausted(retrievals: int, document_count: int, k: int) -> bool:
    """Whether another search of the index is pointless: it filled the last one, or may go on."""
    return retrievals >= MAX_RETRIEVALS or document_count < retrievals * k


def uses_documents(action: Action | None) -> bool:
    """Whether local passages may carry the answer; ungraded ones (no action) do."""
    return action != "incorrect"
