"""The critic's bars: when an answer is accepted, and when a question is looked up.

The bars of support and utility are chosen together, so that of each kind of answer, in each
language, as many as can be fall on the right side: right ones above both bars, wrong ones below one
of them. An answer from nowhere is worse than a needless search, so the bar of retrieval keeps
nearly all questions that need one.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.data.records import JudgementRow
from evaluator.data.synthetic.build import Case
from evaluator.inference.scorer import Scores
from evaluator.schema import LABELS

_SUPPORTS = np.round(np.arange(0.2, 0.96, 0.02), 2)
_GRADES = np.round(np.arange(1.5, 4.9, 0.1), 1)

_RETRIEVE = LABELS["retrieval"][0]
NEARLY = 0.01
"""So much of each share that the quality of bars is made of is no difference."""
LOOKED_UP = 0.975
"""The share of the questions which need retrieval that is to be looked up, in each language."""


@dataclass(frozen=True)
class AnswerBars:
    """An answer is accepted from `support` (0…1) and the expected grade `utility` (1…5) on."""

    support: float
    utility: float


@dataclass(frozen=True)
class JudgedCases:
    """Cases with the evaluator's support (0…1) and expected grade (1…5), shape (cases,)."""

    cases: Sequence[Case]
    support: "np.ndarray[tuple[int], np.dtype[np.float64]]"
    grade: "np.ndarray[tuple[int], np.dtype[np.float64]]"

    def accepted(self, bars: AnswerBars) -> dict[tuple[str, str], float]:
        """The share of accepted answers by language and kind."""
        above = (self.support >= bars.support) & (self.grade >= bars.utility)
        cells: dict[tuple[str, str], list[bool]] = defaultdict(list)
        for case, is_accepted in zip(self.cases, above.tolist(), strict=True):
            cells[case.language, case.kind].append(is_accepted)
        return {cell: sum(flags) / len(flags) for cell, flags in sorted(cells.items())}


def judged(cases: Sequence[Case], scores: Scores) -> JudgedCases:
    """What the evaluator makes of the cases."""
    support = np.array(scores("support", [case.support for case in cases]))
    utility = np.array(scores("utility", [case.utility for case in cases]))
    return JudgedCases(cases, support, 3 + 2 * utility)


def choose_bars(graded: JudgedCases) -> AnswerBars | None:
    """The bars at which right and wrong kinds are told best; None without cases of either side.

    A language's right kinds count as much as its wrong ones, and each of these as much as any. Of
    bars that are nearly as good (NEARLY) the lowest grade and then the highest support: grades
    move more from one kind of text to another, and support refuses what a text does not say.
    """
    right = {(case.language, case.kind): case.right for case in graded.cases}
    if len(set(right.values())) < 2:
        return None

    def quality(bars: AnswerBars) -> float:
        by_side: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for (language, kind), share in graded.accepted(bars).items():
            is_right = right[language, kind]
            by_side[language, is_right].append(share if is_right else 1 - share)
        return sum(sum(shares) / len(shares) for shares in by_side.values())

    every = [AnswerBars(float(support), float(grade)) for support in _SUPPORTS for grade in _GRADES]
    qualities = [quality(bars) for bars in every]
    shares = 2 * len({case.language for case in graded.cases})
    least = max(qualities) - NEARLY * shares
    nearly = [bars for bars, own in zip(every, qualities, strict=True) if own >= least]
    return min(nearly, key=lambda bars: (bars.utility, -bars.support))


def report(graded: JudgedCases, bars: AnswerBars) -> str:
    """The bars, and the share of each kind of answer that they accept."""
    right = {(case.language, case.kind): case.right for case in graded.cases}
    lines = [f"accepted from support {bars.support:.2f} and utility grade {bars.utility:.1f} on:"]
    for (language, kind), share in graded.accepted(bars).items():
        side = "right" if right[language, kind] else "wrong"
        lines.append(f"  {language} {side}, {kind}: {share:.3f}")
    return "\n".join(lines)


def choose_retrieval(rows: Sequence[JudgementRow], scores: Scores) -> float:
    """The highest bar, in hundredths, above which LOOKED_UP of what needs retrieval stands.

    `rows` are of the task "retrieval" and were left out of training.
    """
    shares: dict[str, list[float]] = defaultdict(list)
    needed = [row for row in rows if row.label == _RETRIEVE]
    scored = scores("retrieval", [(row.first, row.second) for row in needed])
    for row, share in zip(needed, scored, strict=True):
        shares[row.language].append(share)
    lowest = min(float(np.quantile(of_one, 1 - LOOKED_UP)) for of_one in shares.values())
    return math.floor(lowest * 100) / 100
