"""Ways to measure answer relevancy by the evaluator, on labelled rows in two halves.

One half serves to choose a way, the other one reports it: both stand on the page.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
from sklearn.metrics import roc_auc_score

from app.extensions.evaluation.judge import standing_in
from app.extensions.evaluation.matching import tokens
from app.extensions.evaluation.measures import UNGRADED
from app.extensions.evaluation.statistics import rounded
from graphs.ports import Evaluator
from graphs.text.sentences import sentences
from graphs.types import Task

WAYS = {
    "utility": "utility of the answer",
    "own": "relevance of the answer itself",
    "share": "relevance of the sentence nearest to it, times the share of its words there",
    "standing": "relevance of the sentence that it stands in, else of itself (the judge's)",
    "support": "support by the passage, which is faithfulness and told for comparison",
}


class RelevancyRow(Protocol):
    """A question, a passage, an answer, and whether the answer is relevant."""

    @property
    def question(self) -> str: ...
    @property
    def passage(self) -> str: ...
    @property
    def answer(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, bool | None]: ...


async def ways(evaluator: Evaluator, rows: Sequence[RelevancyRow]) -> dict[str, Any]:
    """By way: the AUC on either half, and how many rows each has."""
    rows = [row for row in rows if row.answer and row.labels.get("answer_relevant") is not None]
    lines = [sentences(row.passage) or [row.passage] for row in rows]
    own = await _scores(evaluator, "relevance", [(row.question, row.answer) for row in rows])
    near = [_nearest(row.answer, some) for row, some in zip(rows, lines, strict=True)]
    at_near = [(row.question, line) for row, (line, _) in zip(rows, near, strict=True)]
    grades = await _scores(evaluator, "relevance", at_near)
    stands = [standing_in(some, row.answer) for row, some in zip(rows, lines, strict=True)]
    at = [(row.question, line or row.answer) for row, line in zip(rows, stands, strict=True)]
    found = {
        "utility": await _scores(evaluator, "utility", [(it.question, it.answer) for it in rows]),
        "own": own,
        "share": [(grade + 1) / 2 * share for grade, (_, share) in zip(grades, near, strict=True)],
        "standing": await _scores(evaluator, "relevance", at),
        "support": await _scores(evaluator, "support", [(it.answer, it.passage) for it in rows]),
    }
    half = np.array([sha256(row.question.encode()).digest()[-1] % 2 for row in rows])
    truth = np.array([bool(row.labels["answer_relevant"]) for row in rows])
    return {
        "rows": [int((half == n).sum()) for n in (0, 1)],
        "auc": {
            way: [
                rounded(roc_auc_score(truth[half == n], np.array(values)[half == n]))
                for n in (0, 1)
            ]
            for way, values in found.items()
        },
    }


def table(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lines of Markdown, by language."""
    rows = ", ".join(f"{name} {it['rows'][0]} and {it['rows'][1]}" for name, it in found.items())
    lines = [
        "## Answer relevancy: ways that were tried",
        "",
        f"AUC on two halves of the rows ({rows}), divided by question. The first half served to"
        " choose, the second one reports. Answers of these rows are mostly names and numbers, which"
        " by themselves say little of the question. Of ways that come near each other on the first"
        " half the judge takes the one that is fair to answers in words of their own.",
        "",
        f"| way | {' | '.join(f'{name}, chosen on | {name}, held out' for name in found)} |",
        f"|---|{'---|---|' * len(found)}",
    ]
    for way, told in WAYS.items():
        cells = [str(value) for it in found.values() for value in it["auc"][way]]
        lines.append(f"| {told} | {' | '.join(cells)} |")
    return lines


def _nearest(answer: str, lines: Sequence[str]) -> tuple[str, float]:
    """The line with most of the answer's words, and their share; the shortest of several."""
    words = Counter(tokens(answer))
    shares = [(words & Counter(tokens(line))).total() / max(1, words.total()) for line in lines]
    best = max(range(len(lines)), key=lambda n: (shares[n], -len(lines[n])))
    return lines[best], shares[best]


async def _scores(
    evaluator: Evaluator, task: Task, pairs: Sequence[tuple[str, str]]
) -> list[float]:
    found = await evaluator.score(task, pairs)
    return [UNGRADED if score is None else score for score in found.values]
