"""Fusion's scale and shift: how likely it is that evidence of a size means an answer.

A logistic regression over each question's best passage, from which the action follows (Platt; Guo
et al., arXiv 1706.04599). Languages weigh the same, and so do right and wrong within each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evaluator.calibration.thresholds import Score
from evaluator.data.calibration_questions import LabelledQuestion
from evaluator.inference.fusion import FusionWeights
from evaluator.inference.scorer import Similarity
from evaluator.model.checkpoint import FUSION_FILE

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

    def score_with(self, weights: FusionWeights) -> Score:
        """Relevance scores as the worker gives them with these weights."""
        return lambda pairs: [2 * weights.chance(*reading) - 1 for reading in self.of(pairs)]


def fit(
    questions: Sequence[LabelledQuestion], readings: Readings, weights: FusionWeights
) -> FusionWeights | None:
    """The weights with scale and shift for these questions; None where those tell too little."""
    best, is_right = [], []
    for each in questions:
        readings_of = readings.of([(each.question, passage) for passage in each.passages])
        values = [weights.evidence(*reading) for reading in readings_of]
        place = int(np.argmax(values))
        best.append(values[place])
        is_right.append(each.labels[place])
    answers = np.array(is_right)
    if len(questions) < LEAST or answers.all() or not answers.any():
        return None
    balance = _balanced([each.language for each in questions], answers)
    scale, shift = logistic(np.array(best), answers, balance)
    if scale <= 0:
        return None
    fitted = {"scale": scale, "shift": shift, "questions": len(questions)}
    return weights.model_copy(update=fitted)


def logistic(values: Floats, labels: npt.NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """Scale and shift of a logistic regression by Newton's method, which needs no scikit-learn."""
    spread = values.std()
    inputs = np.column_stack([values / spread, np.ones(len(values))])
    solution, ridge = np.zeros(2), _RIDGE * np.eye(2)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-inputs @ solution))
        slope = inputs.T @ (weights * (labels - chance)) - ridge @ solution
        curve = (inputs * (weights * chance * (1 - chance))[:, None]).T @ inputs + ridge
        solution = solution + np.linalg.solve(curve, slope)
    return float(solution[0] / spread), float(solution[1])


def _balanced(languages: Sequence[str], labels: npt.NDArray[np.bool_]) -> Floats:
    groups = list(zip(languages, labels.tolist(), strict=True))
    counts = Counter(groups)
    return np.array([1 / (counts[group] * len(counts)) for group in groups])


def store(weights: FusionWeights, folder: Path) -> None:
    """Write `fusion.json`; the folder's thresholds, found before it, then belong to others."""
    text = weights.model_dump_json(indent=2)
    (folder / FUSION_FILE).write_text(text + "\n", encoding="utf-8")
