import math

import pytest
from pydantic import ValidationError

from evaluator.schema import (
    LABELS,
    CalibratedThresholds,
    PoolWeights,
    ScoreRequest,
    Task,
    WorkerProblem,
    score_of,
)


def shares(task: Task, *values: float) -> dict[str, float]:
    return dict(zip(LABELS[task], values, strict=False))


@pytest.mark.parametrize(
    ("task", "values", "score"),
    [
        ("relevance", (0.9, 0.1), 0.8),
        ("relevance", (0.0, 1.0), -1.0),
        ("support", (0.6, 0.3, 0.1), 0.75),
        ("utility", (0, 0, 0, 0, 1), 1.0),
        ("utility", (0.2, 0.2, 0.2, 0.2, 0.2), 0.0),
        ("retrieval", (0.3, 0.1, 0.6), 0.75),
        ("retrieval", (0.0, 0.0, 1.0), 0.0),
    ],
)
def test_scores_follow_the_papers(task: Task, values: tuple[float, ...], score: float) -> None:
    assert score_of(task, shares(task, *values)) == pytest.approx(score)


def test_missing_tokens_count_nothing() -> None:
    assert score_of("support", {}) == 0.0


def test_half_a_surrogate_pair_is_replaced() -> None:
    request = ScoreRequest(task="relevance", pairs=[("why?", "because \ud800")])
    assert request.pairs[0][1] == "because ?"
    problem = WorkerProblem(
        title="", status=422, detail="河\ud83d", errors=[{"pointer": "#/\udfff"}]
    )
    assert (problem.detail, problem.errors) == ("河?", [{"pointer": "#/?"}])


def test_lower_above_upper_is_refused() -> None:
    with pytest.raises(ValidationError, match="lower lies above upper"):
        CalibratedThresholds(upper=0.1, lower=0.2, strip_floor=0.0, evaluator="")


def test_a_pool_of_two_tells_nothing_and_a_missing_score_stays_missing() -> None:
    pool = PoolWeights(scale=0.5, standing=20.0, shift=-1.0)
    assert pool.grades([0.3, -0.2], [0.1, 0.0]) == [0.3, -0.2]
    assert pool.grades([0.3, 0.1, 0.2], [0.1, None, 0.0]) == [0.3, 0.1, 0.2]
    first, none, third, alone = pool.grades([1.0, None, 0.0, 0.4], [0.2, 0.1, 0.1, None])
    assert (none, alone) == (None, 0.4)
    assert third == pytest.approx(2 / (1 + math.exp(1.0)) - 1)
    assert first is not None
    assert 0.99 < first < 1
