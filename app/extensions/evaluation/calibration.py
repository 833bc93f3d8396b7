"""Thresholds proposed from an evaluation: where Correct and Incorrect would have been right.

Costs are those of `selfcrag-evaluator calibrate`: a wrong action 1, Ambiguous 0.45. What the
proposal is worth on questions it was not chosen on is told by cross-validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.extensions.evaluation.measures import UNGRADED, has_evidence
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.runner import Answered
from app.extensions.evaluation.statistics import rounded
from graphs.grading.actions import action_of, joint_action
from graphs.types import Action, Origin, Thresholds

AMBIGUOUS_COST = 0.45
FOLDS, MAX_CUTS = 5, 100
MIN_QUESTIONS = 20
"""Below it a proposal would follow single questions."""
LOCAL: Origin = "internal"


@dataclass(frozen=True, slots=True)
class Graded:
    """A question's best grades among its local documents, and whether one holds the answer.

    `whole` is the best grade by the question itself, `parts` are those by its sub-questions.
    """

    question: str
    whole: float
    evidence: bool
    parts: tuple[float, ...] = ()

    @property
    def for_correct(self) -> float:
        """Correct where it reaches the upper threshold: the whole question, or all its parts."""
        return max(self.whole, min(self.parts, default=self.whole))

    @property
    def for_incorrect(self) -> float:
        """Incorrect where it stays below the lower threshold: the question and all its parts."""
        return max((self.whole, *self.parts))

    def action(self, upper: float, lower: float) -> Action:
        return joint_action([action_of([it], upper, lower) for it in (self.whole, *self.parts)])


@dataclass(frozen=True, slots=True)
class ChangedAction:
    question: str
    evidence: bool
    before: Action
    after: Action


@dataclass(frozen=True, slots=True)
class Proposal:
    """The thresholds of least cost, and what they would change.

    Costs are means a question; `unseen_cost` is that of thresholds chosen without the question.
    """

    upper: float
    lower: float
    cost: float
    unseen_cost: float
    present_cost: float
    changed: tuple[ChangedAction, ...]
    questions: int

    @property
    def is_better(self) -> bool:
        """Also on questions that it was not chosen on."""
        return self.unseen_cost < self.present_cost


def graded(questions: Sequence[EvaluationQuestion], answers: Sequence[Answered]) -> list[Graded]:
    """Those whose action the grades decided and whose evidence is known."""
    rows = []
    for question, answered in zip(questions, answers, strict=True):
        outcome = answered.outcome
        if outcome is None or outcome.action is None:
            continue
        evidence = has_evidence(question, outcome)
        scores = [it.score for it in outcome.documents if it.origin == LOCAL]
        best, *parts = outcome.best_grades or [max(scores, default=UNGRADED)]
        if evidence is not None:
            rows.append(Graded(question.question, best, evidence, tuple(parts)))
    return rows


def propose(rows: Sequence[Graded], present: Thresholds) -> Proposal | None:
    """None where too few questions were graded, or all are of one kind."""
    if len(rows) < MIN_QUESTIONS or len({row.evidence for row in rows}) < 2:
        return None
    upper, lower = _best(rows, present)
    unseen = 0.0
    for fold in range(FOLDS):
        seen = [row for n, row in enumerate(rows) if n % FOLDS != fold]
        unseen += _cost(rows[fold::FOLDS], *_best(seen, present))
    changed = [
        ChangedAction(row.question, row.evidence, before, after)
        for row in rows
        if (before := row.action(present.upper, present.lower))
        != (after := row.action(upper, lower))
    ]
    costs = (_cost(rows, upper, lower), unseen, _cost(rows, present.upper, present.lower))
    cost, unseen_cost, present_cost = (rounded(it / len(rows)) or 0.0 for it in costs)
    return Proposal(upper, lower, cost, unseen_cost, present_cost, tuple(changed), len(rows))


def _best(rows: Sequence[Graded], present: Thresholds) -> tuple[float, float]:
    """Upper and lower of least cost; of several the nearest to those at present.

    The cost of a pair is a sum of what upper alone and what lower alone decide.
    """
    for_correct = np.array([row.for_correct for row in rows])
    for_incorrect = np.array([row.for_incorrect for row in rows])
    evidence = np.array([row.evidence for row in rows])
    grades = np.concatenate([for_correct, for_incorrect])
    between = np.quantile(grades, np.linspace(0, 1, MAX_CUTS)).round(3)
    cuts = np.unique([present.upper, present.lower, *between.tolist()])
    above_upper = for_correct[None, :] >= cuts[:, None]
    above_lower = for_incorrect[None, :] >= cuts[:, None]
    by_upper = (above_upper & ~evidence).sum(axis=1) - AMBIGUOUS_COST * above_upper.sum(axis=1)
    by_lower = (~above_lower & evidence).sum(axis=1) + AMBIGUOUS_COST * above_lower.sum(axis=1)
    cost = (by_upper[:, None] + by_lower[None, :]).round(6)
    away = np.abs(cuts - present.upper)[:, None] + np.abs(cuts - present.lower)[None, :]
    crossed = cuts[None, :] > cuts[:, None]
    upper, lower = min(zip(*np.nonzero(~crossed), strict=True), key=lambda at: (cost[at], away[at]))
    return float(cuts[upper]), float(cuts[lower])


def _cost(rows: Sequence[Graded], upper: float, lower: float) -> float:
    pairs = [(row.action(upper, lower), row.evidence) for row in rows]
    return sum(
        AMBIGUOUS_COST if action == "ambiguous" else float((action == "correct") != evidence)
        for action, evidence in pairs
    )
