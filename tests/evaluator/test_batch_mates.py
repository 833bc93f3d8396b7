"""A pair's score does not depend on what it is asked with: the real worker's batches, any mix."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluator.inference.scorer import RowScore, Scorer, load_scorer
from evaluator.schema import TASKS, ScoreResponse, Task
from evaluator.serving.batching import Batcher, Pair, in_batches
from evaluator.settings import EvaluatorSettings
from evaluator.training.onnx_export import export
from tests.evaluator.tiny import tiny_folder

TEXTS = [
    "river", "how long is the river?", "河流", "河流很长，很长", "</s> [SEP] <pad>", "x " * 30,
    "7.", "the river is long. " * 5,
]  # fmt: skip
PAIRS = [(TEXTS[n % 8], TEXTS[(3 * n + n // 8) % 8]) for n in range(20)]
requests = st.lists(
    st.tuples(st.sampled_from(TASKS[:2]), st.lists(st.sampled_from(PAIRS), min_size=1, max_size=7)),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module", params=["torch", pytest.param("onnx", marks=pytest.mark.slow)])
def scorer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    folder: Path = tiny_folder(tmp_path_factory.mktemp("mates") / "tiny")
    if request.param == "onnx":
        export(folder)
    chosen = {"weights": folder, "backend": request.param, "threads": 1}
    return load_scorer(EvaluatorSettings.model_validate(chosen))


@pytest.fixture(scope="module")
def alone(scorer: Scorer) -> dict[tuple[Task, Pair], RowScore]:
    """Each pair's judgement in a batch of its own, nearly all of them different."""
    judged = {
        (task, pair): in_batches(scorer, task, [pair])[0] for task in TASKS[:2] for pair in PAIRS
    }
    assert len({row.score for row in judged.values() if isinstance(row, RowScore)}) > 30
    return {asked: row for asked, row in judged.items() if isinstance(row, RowScore)}


async def asked_at_once(
    scorer: Scorer, asked: list[tuple[Task, list[Pair]]], bound: int, kept: int
) -> list[ScoreResponse]:
    batcher = Batcher(scorer, batch_tokens=bound, max_queued_pairs=1000, cached_pairs=kept)
    run = asyncio.create_task(batcher.run())
    try:
        return await asyncio.gather(*(batcher.score(task, pairs) for task, pairs in asked))
    finally:
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asked=requests, bound=st.integers(1, 600), kept=st.sampled_from([0, 3, 1000]))
def test_scores_are_those_of_the_pair_alone(
    scorer: Scorer,
    alone: dict[tuple[Task, Pair], RowScore],
    asked: list[tuple[Task, list[Pair]]],
    bound: int,
    kept: int,
) -> None:
    answers = asyncio.run(asked_at_once(scorer, asked, bound, kept))
    for (task, pairs), answer in zip(asked, answers, strict=True):
        assert answer.errors == []
        expected = [alone[task, pair] for pair in pairs]
        assert answer.scores == pytest.approx([row.score for row in expected], abs=1e-5)
        for label, row in zip(answer.labels, expected, strict=True):
            ties = row.probabilities[str(label)] > max(row.probabilities.values()) - 1e-5
            assert label == row.label or ties
