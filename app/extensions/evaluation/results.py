"""Results of an evaluation: means with intervals, differences, confusions, lost answers.

Equal answers make equal results, to the byte: times are kept apart.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, get_args

import numpy as np

from app.extensions.evaluation.measures import MEASURES, Stage, has_evidence, is_right, lost_at
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.runner import Answered, EvaluationRequest, Variant
from app.extensions.evaluation.statistics import mean, paired_difference, rounded, share
from graphs.types import Action, Verdict

Results = dict[str, Any]
EXPECTED: dict[bool, Action] = {True: "correct", False: "incorrect"}
VERDICTS: tuple[Verdict, ...] = ("supported", "partly", "unsupported", "not_judged", "abstained")
STAGES: tuple[Stage, ...] = get_args(Stage)
ABOUT_RIGHT: dict[Verdict, float] = {"supported": 1.0, "partly": 0.5, "unsupported": 0.0}
"""How often a verdict promises to be right: what its share of right answers is held against."""


def results_of(
    request: EvaluationRequest, answers: Sequence[Answered], fingerprint: Mapping[str, Any]
) -> Results:
    """Everything that the report shows but times and texts."""
    by_variant: dict[str, list[Answered]] = defaultdict(list)
    for answered in answers:
        by_variant[answered.variant].append(answered)
    questions = request.questions
    cells = {
        name: [_cell(*pair) for pair in zip(questions, given, strict=True)]
        for name, given in by_variant.items()
    }
    known = [question.is_answerable for question in questions]
    first = by_variant[request.variants[0].name]
    return {
        "name": request.name,
        "judge": request.judge,
        "seed": request.seed,
        "fingerprint": dict(fingerprint),
        "questions": {
            "all": len(questions),
            "answerable": known.count(True),
            "unanswerable": known.count(False),
            "with_answers": sum(bool(question.answers) for question in questions),
            "with_sources": sum(bool(question.sources) for question in questions),
            "generated": sum(question.generated for question in questions),
        },
        "variants": [
            _variant(it, questions, by_variant[it.name], cells[it.name], request.seed)
            for it in request.variants
        ],
        "differences": [
            _differences(variant, by_variant[variant.name], first, request)
            for variant in request.variants[1:]
        ],
        "not_covered": _not_covered(questions, by_variant),
        "rows": [
            {
                "id": question.id,
                "question": question.question,
                "answerable": question.is_answerable,
                "variants": {it.name: cells[it.name][n] for it in request.variants},
            }
            for n, question in enumerate(questions)
        ],
    }


def times_of(answers: Sequence[Answered]) -> dict[str, dict[str, float | None]]:
    """Median and 95th percentile of the seconds an answer took, by variant."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for answered in answers:
        seconds[answered.variant].append(answered.seconds)
    return {
        name: {"p50": rounded(median(values)), "p95": rounded(float(np.percentile(values, 95)))}
        for name, values in seconds.items()
    }


def _variant(
    variant: Variant,
    questions: Sequence[EvaluationQuestion],
    answers: Sequence[Answered],
    cells: Sequence[Mapping[str, Any]],
    seed: int,
) -> dict[str, Any]:
    stages = Counter(cell.get("lost_at") for cell in cells)
    return {
        "name": variant.name,
        "workflow": variant.workflow,
        "options": variant.options.model_dump(mode="json", exclude_unset=True),
        "measures": {name: asdict(mean(_values(answers, name), seed)) for name in MEASURES},
        "confusion": _confusion(questions, answers),
        "verdicts": _verdicts(answers),
        "stages": {stage: stages[stage] for stage in STAGES if stages[stage]},
        "failed": sum(answered.failure is not None for answered in answers),
        "degraded": _degraded(answers),
    }


def _confusion(
    questions: Sequence[EvaluationQuestion], answers: Sequence[Answered]
) -> dict[str, dict[str, int]]:
    """How often each action was taken, by the one that the evidence calls for."""
    table: dict[str, Counter[str]] = {expected: Counter() for expected in EXPECTED.values()}
    for question, answered in zip(questions, answers, strict=True):
        if answered.outcome is None or answered.outcome.action is None:
            continue
        evidence = has_evidence(question, answered.outcome)
        if evidence is not None:
            table[EXPECTED[evidence]][answered.outcome.action] += 1
    return {
        expected: {action: row[action] for action in ("correct", "ambiguous", "incorrect")}
        for expected, row in table.items()
    }


def _verdicts(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    """Of each verdict how often it was given and how often the answer then was right."""
    entries = []
    for verdict in VERDICTS:
        given = [it for it in answers if it.outcome is not None and it.outcome.verdict == verdict]
        right = [flag for it in given if (flag := is_right(it.measures)) is not None]
        if given:
            counts = {"verdict": verdict, "n": len(given), "known": len(right)}
            shares = {"right": rounded(share(right)), "promised": ABOUT_RIGHT.get(verdict)}
            entries.append(counts | shares)
    return entries


def _degraded(answers: Sequence[Answered]) -> dict[str, int]:
    counted = Counter(
        line for answered in answers if answered.outcome for line in answered.outcome.degraded
    )
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _differences(
    variant: Variant,
    ours: Sequence[Answered],
    first: Sequence[Answered],
    request: EvaluationRequest,
) -> dict[str, Any]:
    return {
        "variant": variant.name,
        "against": request.variants[0].name,
        "measures": {
            name: asdict(paired_difference(_values(ours, name), _values(first, name), request.seed))
            for name in MEASURES
        },
    }


def _values(answers: Sequence[Answered], name: str) -> list[float | None]:
    return [answered.measures.get(name) for answered in answers]


def _not_covered(
    questions: Sequence[EvaluationQuestion], by_variant: Mapping[str, Sequence[Answered]]
) -> list[str]:
    """Questions for which no variant found evidence: by gold, else because all refused."""
    ids = []
    for n, question in enumerate(questions):
        outcomes = [it for answers in by_variant.values() if (it := answers[n].outcome) is not None]
        evidence = [has_evidence(question, outcome) for outcome in outcomes]
        refused = [outcome.abstained or outcome.action == "incorrect" for outcome in outcomes]
        if outcomes and not any(evidence) and (False in evidence or all(refused)):
            ids.append(question.id)
    return ids


def _cell(question: EvaluationQuestion, answered: Answered) -> dict[str, Any]:
    outcome = answered.outcome
    if outcome is None or answered.failure is not None:
        return {"failure": answered.failure}
    return {
        "answer": outcome.answer,
        "action": outcome.action,
        "verdict": outcome.verdict,
        "right": is_right(answered.measures),
        "evidence": has_evidence(question, outcome),
        "lost_at": lost_at(question, outcome, answered.measures),
        "measures": {k: v for k, v in answered.measures.items() if v is not None},
    }
