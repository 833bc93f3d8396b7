"""The fusion's scale and shift from labelled questions."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from evaluator.calibration.fusion import Readings, fit, fit_pool, logistic
from evaluator.calibration.thresholds import calibrate
from evaluator.data.calibration_questions import LabelledQuestion
from evaluator.inference.fusion import FusionWeights

Pair = tuple[str, str]


def questions(count: int) -> list[LabelledQuestion]:
    """Passages are named by what either reader makes of them."""
    rng, made = random.Random(1), []
    for number in range(count):
        question = f"question {number}?" if number % 2 else f"问题{number}？"
        labels = [rank == 0 and number % 4 < 2 for rank in range(5)]
        passages = []
        for label in labels:
            own, near = rng.gauss(0.3 * label, 0.4), rng.gauss(0.08 * label, 0.03)
            passages.append(f"{max(min(own, 0.99), -0.99):.4f} {near:.4f}")
        made.append(LabelledQuestion(question, passages, labels))
    return made


class Reader:
    """Both readers, by the passage's name; counts what is read."""

    def __init__(self) -> None:
        self.scored: list[Pair] = []

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        self.scored += pairs
        return [float(passage.split()[0]) for _, passage in pairs]

    def of(self, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
        return [(float(passage.split()[1]), 0.0) for _, passage in pairs]


def readings() -> Readings:
    reader = Reader()
    return Readings(reader.score, reader)


def test_the_probability_means_what_it_says() -> None:
    asked, read = questions(600), readings()
    found = fit(asked, read, FusionWeights())
    assert found
    assert found.questions == 600
    assert found.similarity == FusionWeights().similarity
    best = [max(read.score_with(found)([(q.question, p) for p in q.passages])) for q in asked]
    chance = (np.array(best) + 1) / 2
    answered = np.array([q.answered for q in asked])
    for low, high in ((0, 0.5), (0.5, 1)):
        part = (chance >= low) & (chance < high)
        assert chance[part].mean() == pytest.approx(answered[part].mean(), abs=0.1)
    assert fit(asked[:30], read, FusionWeights()) is None


def test_questions_that_tell_nothing_change_nothing() -> None:
    unanswered = [LabelledQuestion(q.question, q.passages, [False] * 5) for q in questions(60)]
    assert fit(unanswered, readings(), FusionWeights()) is None
    turned = [
        LabelledQuestion(q.question, q.passages, [not v for v in q.labels]) for q in questions(60)
    ]
    assert fit(turned, readings(), FusionWeights()) is None


def test_the_regression_is_the_known_one() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=500) * 3
    labels = rng.random(500) < 1 / (1 + np.exp(-0.7 * values + 1))
    weights = rng.random(500)
    both = np.column_stack([values, rng.normal(size=500)])
    for inputs in (values[:, None], both):
        known = LogisticRegression(C=1e6, tol=1e-8).fit(inputs, labels, weights)
        expected = [*known.coef_[0], known.intercept_[0]]
        assert logistic(inputs, labels, weights) == pytest.approx(expected, rel=0.01, abs=0.01)
    scale, shift = logistic(values[:, None], values > 1, weights)  # separable
    assert np.isfinite([scale, shift]).all()
    assert scale > 0.7


def test_a_pair_is_read_once() -> None:
    reader = Reader()
    read = Readings(reader.score, reader)
    pair, other = ("a?", "0.5 0.1"), ("a?", "0.1 0.2")
    assert read.of([pair, pair]) == [(0.75, 0.1, 0.0)] * 2
    assert read.of([other, pair]) == [(0.55, 0.2, 0.0), (0.75, 0.1, 0.0)]
    assert reader.scored == [pair, other]


def pools(
    seed: int, source: str = "", level: float = 0.0, noise: float = 0.02
) -> list[LabelledQuestion]:
    """Questions, half of them answered, that lie `level` near to any text."""
    rng, labelled = random.Random(seed), []
    for number in range(400):
        nearness = rng.gauss(level, 0.1 - noise)  # of this question to any text
        labels = [rank == 0 and number % 2 == 0 for rank in range(6)]
        nears = [nearness + 0.1 * label + rng.gauss(0, noise) for label in labels]
        owns = [rng.gauss(0.4 * label, 0.2) for label in labels]
        passages = [f"{own:.4f} {near:.4f}" for own, near in zip(owns, nears, strict=True)]
        question = LabelledQuestion(f"question {number}?", passages, labels, source=source)
        labelled.append(question)
    return labelled


def test_a_source_of_another_level_does_not_bend_the_pool() -> None:
    read, weights = readings(), FusionWeights(similarity=10.0)
    one = pools(2, "one", noise=0.05)
    alone = fit_pool(one, read, weights)
    both = fit_pool([*one, *pools(3, "other", 0.2, noise=0.05)], read, weights)
    assert alone
    assert both
    assert both.scale == pytest.approx(alone.scale, rel=0.2)
    assert both.standing == pytest.approx(alone.standing, rel=0.2)


def test_a_pool_tells_more_than_its_best_passage_alone() -> None:
    labelled = pools(2)
    read = readings()
    weights = fit(labelled, read, FusionWeights(similarity=20.0))
    assert weights
    pool = fit_pool(labelled, read, weights)
    assert pool
    score, grade = read.score_with(weights), read.grade_with(weights, pool)
    alone, among = (calibrate(labelled, score, grade=way).thresholds for way in (None, grade))
    assert among.figures["en_accuracy"] > 0.95 > 0.8 > alone.figures["en_accuracy"]
    few = [LabelledQuestion(q.question, q.passages[:2], q.labels[:2]) for q in labelled]
    assert fit_pool(few, read, weights) is None
