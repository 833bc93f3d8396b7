"""What is measured of one answer: the service's own measures, and those of the papers alone."""

from collections.abc import Sequence

from app.extensions.evaluation.judge import said_of
from app.extensions.evaluation.matching import exact_match, holds, published_match, tokens
from app.extensions.evaluation.measures import (
    Judged,
    Measured,
    Outcome,
    Values,
    has_evidence,
    measured,
)
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.statistics import rounded
from app.schemas.ask import AskResponse
from benchmarks.reproduce.experiments import Groups, Inquiry
from benchmarks.reproduce.formats import BenchmarkExample

TITLES = {
    "matched": "Matched", "published": "Published match", "abstained": "Abstained",
    "repeats_wrong": "Repeats the wrong answer", "readings": "Short answers (STR-EM)",
    "rouge_l": "ROUGE-L", "words": "Words", "rounds": "Revisions", "accepted": "Accepted",
    "judged_right": "Judged right", "seconds": "Seconds", "load": "Load average", "gflops": "GFLOP",
}  # fmt: skip
"""Beside those of `app.extensions.evaluation.measures`."""
MAX_GOLD = 100


def question_of(example: BenchmarkExample, inquiry: Inquiry) -> EvaluationQuestion:
    """What is asked as the service's measures take it."""
    golds = [answer for group in inquiry.answers for answer in group][:MAX_GOLD]
    return EvaluationQuestion(
        id=example.id[:200], question=inquiry.question, answers=golds, answerable=example.answerable
    )


def values_of(
    example: BenchmarkExample,
    inquiry: Inquiry,
    response: AskResponse,
    outcome: Outcome,
    judged: Judged,
) -> Values:
    """By name; None where the gold says nothing."""
    question = question_of(example, inquiry)
    said = "" if outcome.abstained else said_of(outcome)
    evidence = has_evidence(question, outcome)
    values: Values = {
        **measured(question, outcome, judged),
        "matched": _share_of(said, inquiry.answers, bool(example.choices)),
        "published": _published(said, inquiry.answers),
        "abstained": float(outcome.abstained),
        "words": float(len(tokens(said))),
        "rounds": float(max(0, len(response.critique) - 1)),
        "accepted": float(any(each.accepted for each in response.critique)),
    }
    if inquiry.wrong:
        values["repeats_wrong"] = float(holds(said, inquiry.wrong))
    if evidence is not None and outcome.action is not None:
        values["judged_right"] = float((outcome.action == "correct") == evidence)
    if example.parts:
        found = [holds(said, answers) for _, answers in example.parts if answers]
        values["readings"] = sum(found) / len(found) if found else None
    if example.long_answers:
        values["rouge_l"] = max(rouge_l(said, gold) for gold in example.long_answers)
    return {name: rounded(value) for name, value in values.items()}


def _share_of(said: str, answers: Groups, is_closed: bool) -> float | None:
    """1 where every group has an answer in what was said; of a closed set, where it is that."""
    if not answers:
        return None
    match = exact_match if is_closed else holds
    return float(all(match(said, group) for group in answers))


def _published(said: str, answers: Groups) -> float | None:
    return float(all(published_match(said, group) for group in answers)) if answers else None


def rouge_l(said: str, gold: str) -> float:
    """F1 of the longest common subsequence of tokens."""
    ours, theirs = tokens(said), tokens(gold)
    row = [0] * (len(theirs) + 1)
    for word in ours:
        before = row
        row = [0]
        for at, other in enumerate(theirs):
            row.append(before[at] + 1 if word == other else max(row[at], before[at + 1]))
    common = row[-1]
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def column(rows: Sequence[Measured], name: str) -> list[float | None]:
    return [row.get(name) for row in rows]
