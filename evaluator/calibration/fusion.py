"""Fusion's scale and shift: how likely it is that evidence of a size means an answer.

A logistic regression over each question's best passage, from which the action follows (Platt; Guo
et al., arXiv 1706.04599). Languages weigh the same, sources within each, and right and wrong
within those.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evaluator.calibration.thresholds import Grade, Score
from evaluator.data.calibration_questions import LabelledQuestion
from evaluator.inference.fusion import FusionWeights
from evaluator.inference.scorer import Similarity
from evaluator.model.checkpoint import FUSION_FILE
from evaluator.schema import MIN_POOL, PoolWeights

Floats = npt.NDArray[np.float64]
LEAST = 40
"""Questions below which nothing is fitted."""
_RIDGE = 1e-3
_STEPS = 50


@dataclass
class Readings:
    """What both readers make of pairs, each pair read once."""

    score: Score
    similarity: Similarity

    def __post_init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, float, float]] = {}

    def of(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float, float]]:
        """The T5's probability and e5's two cosines."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        cosines = self.similarity.of(new) if new else []
        for pair, score, (near, again) in zip(new, self.score(new), cosines, strict=True):
            self._known[pair] = (score + 1) / 2, near, again
        return [self._known[pair] for pair in pairs]

    def of_passages(self, question: LabelledQuestion) -> list[tuple[float, float, float]]:
        """Of a question's passages, as `of`."""
        return self.of([(question.question, passage) for passage in question.passages])

    def score_with(self, weights: FusionWeights) -> Score:
        """Relevance scores as the worker gives them with these weights."""
        return lambda pairs: [2 * weights.chance(*reading) - 1 for reading in self.of(pairs)]

    def grade_with(self, weights: FusionWeights, pool: PoolWeights) -> Grade:
        """Grades of a question's passages as the service gives them with these weights."""

        def grade(question: LabelledQuestion) -> list[float]:
            read = self.of_passages(question)
            scores = [2 * weights.chance(*reading) - 1 for reading in read]
            return [x for x in pool.grades(scores, [near for _, near, _ in read]) if x is not None]

        return grade


def fit(
    questions: Sequence[LabelledQuestion], readings: Readings, weights: FusionWeights
) -> FusionWeights | None:
    """The weights with scale and shift for these questions; None where those tell too little."""
    best, is_right = [], []
    for each in questions:
        values = [weights.evidence(*reading) for reading in readings.of_passages(each)]
        place = int(np.argmax(values))
        best.append([values[place]])
        is_right.append(each.labels[place])
    fitted = _fitted(questions, best, is_right)
    if fitted is None or fitted[0] <= 0:
        return None
    scale, shift = fitted
    update = {"scale": scale, "shift": shift, "questions": len(questions)}
    return weights.model_copy(update=update)


def fit_pool(
    questions: Sequence[LabelledQuestion], readings: Readings, weights: FusionWeights
) -> PoolWeights | None:
    """How passages are graded among all retrieved; None where the questions tell too little.

    Read off each question's best passage by the fused score, from which the action follows. Each
    source has a level of its own (fixed effects): the weights are those that tell right from wrong
    within a source, and the shift is the mean of the levels.
    """
    known, inputs, is_right = [], [], []
    for each in questions:
        read = readings.of_passages(each)
        logits = [weights.scale * weights.evidence(*one) + weights.shift for one in read]
        place = int(np.argmax(logits))
        near = [one[1] for one in read]
        if len(near) >= MIN_POOL:
            known.append(each)
            inputs.append([logits[place], near[place] - float(np.median(near))])
            is_right.append(each.labels[place])
    sources = sorted({(each.language, each.source) for each in known})
    levels = [[(each.language, each.source) == one for one in sources[1:]] for each in known]
    fitted = _fitted(known, [[*a, *b] for a, b in zip(inputs, levels, strict=True)], is_right)
    if fitted is None or min(fitted[:2]) <= 0:
        return None
    scale, standing, *above, first = fitted
    shift = first + sum(above) / len(sources)
    return PoolWeights(*(round(value, 4) for value in (scale, standing, shift)))


def _fitted(
    questions: Sequence[LabelledQuestion],
    inputs: Sequence[Sequence[float]],
    is_right: Sequence[bool],
) -> list[float] | None:
    """A weight for each input and the shift; None where too few questions, or one kind, are there.

    `inputs` has shape (questions, inputs).
    """
    answers = np.array(is_right)
    if len(questions) < LEAST or answers.all() or not answers.any():
        return None
    balance = _balanced([(each.language, each.source) for each in questions], answers)
    return logistic(np.array(inputs), answers, balance)


def logistic(values: Floats, labels: npt.NDArray[np.bool_], weights: Floats) -> list[float]:
    """Logistic regression by Newton's method, which needs no scikit-learn.

    `values` has shape (rows, inputs); a weight for each input, then the shift.
    """
    spread = values.std(axis=0)
    inputs = np.column_stack([values / spread, np.ones(len(values))])
    solution, ridge = np.zeros(inputs.shape[1]), _RIDGE * np.eye(inputs.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-inputs @ solution))
        slope = inputs.T @ (weights * (labels - chance)) - ridge @ solution
        curve = (inputs * (weights * chance * (1 - chance))[:, None]).T @ inputs + ridge
        solution = solution + np.linalg.solve(curve, slope)
    return [*(solution[:-1] / spread).tolist(), float(solution[-1])]


def _balanced(groups: Sequence[tuple[str, str]], labels: npt.NDArray[np.bool_]) -> Floats:
    """Languages weigh the same, sources within a language, right and wrong within a source."""
    sources = Counter(language for language, _ in set(groups))
    rows = list(zip(groups, labels.tolist(), strict=True))
    counts = Counter(rows)
    weights = np.array([1 / (sources[row[0][0]] * counts[row]) for row in rows])
    return weights / float(weights.sum())


def store(weights: FusionWeights, folder: Path) -> None:
    """Write `fusion.json`; the folder's thresholds, found before it, then belong to others."""
    text = weights.model_dump_json(indent=2)
    (folder / FUSION_FILE).write_text(text + "\n", encoding="utf-8")
