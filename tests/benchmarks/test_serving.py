"""The measurement of the worker, in its cheapest form on a tiny checkpoint."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.serving.__main__ import measure, report
from benchmarks.serving.batches import CostModel, allowed_s, fitted, on_cost, on_padding
from benchmarks.serving.hostile import bodies
from benchmarks.serving.model import QUICK, Figures, Hollow, Texts, on_grading, padded_to
from evaluator.inference.scorer import load_scorer
from evaluator.schema import Row, RowScore
from evaluator.serving.batching import Limits
from evaluator.settings import EvaluatorSettings
from evaluator.training.onnx_export import export
from tests.evaluator.tiny import tiny_folder

PLAN = replace(
    QUICK, repetitions=1, requests=4, widths=(32, 64), rows=(1, 2), times=1, questions=3,
    at_once=2, unloaded=3, minutes=0.02, full_request=8,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """So that the threads of several test runs do not wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def settings(tmp_path: Path) -> EvaluatorSettings:
    return EvaluatorSettings(weights=tiny_folder(tmp_path / "tiny"), backend="torch", device="cpu")


async def test_the_worker_grades_as_one_row_at_a_time_does(settings: EvaluatorSettings) -> None:
    found = await on_grading(settings, PLAN)
    assert found["padded_to"] == 96
    assert found["pairs"] == found["equal_verdicts"] == 40
    assert found["most_difference"] < 1e-5
    assert found["ratio"] > 1


def test_padding_to_a_width_computes_the_same_and_ends(settings: EvaluatorSettings) -> None:
    scorer = load_scorer(settings)
    (row,) = scorer.encode("relevance", [("how long?", "it is long")])
    assert isinstance(row, Row)
    (before,) = scorer.forward("relevance", [row])
    with padded_to(64, scorer):
        (wide,) = scorer.forward("relevance", [row])
        with pytest.raises(ValueError, match="negative"):
            scorer.forward("relevance", [Row((4,) * 65)])
    (after,) = scorer.forward("relevance", [row])
    assert isinstance(before, RowScore)
    assert isinstance(wide, RowScore)
    assert wide.score == pytest.approx(before.score, abs=1e-5)
    assert after == before


async def test_padding_is_that_of_the_workers_batches(settings: EvaluatorSettings) -> None:
    found = await on_padding(settings, load_scorer(settings), PLAN)
    assert found["requests"] == 4
    assert 0 <= found["alone"]["p50"] <= found["alone"]["p95"] <= found["alone"]["most"] < 1
    assert 0 <= found["together"]["all"] < 1


def test_the_cost_model_is_fitted_and_prices_batches(settings: EvaluatorSettings) -> None:
    scorer = load_scorer(settings)
    found, _ = on_cost(scorer, PLAN)
    assert {(point["rows"], point["width"]) for point in found["grid"]} == {
        (1, 32), (2, 32), (1, 64), (2, 64)
    }  # fmt: skip
    asked, hollow = [Texts(2).workload(2, 1)], Hollow(scorer)
    one_batch = CostModel((1.0, 0.0, 0.0, 0.0))
    hollow.forward("relevance", [Row((1,) * 96)])
    assert hollow.batches[0].tokens == 96
    assert allowed_s(scorer, asked, one_batch, settings) == 1.0
    assert allowed_s(scorer, asked, CostModel((0.0, 1.0, 0.0, 0.0)), settings) == 3.0


def test_the_fit_finds_what_batches_cost_and_no_negative_cost() -> None:
    def grid(cost: CostModel) -> list[Figures]:
        return [{"rows": rows, "width": width, "s": cost(rows, width)}
                for rows in (1, 2, 8) for width in (16, 64, 256)]  # fmt: skip

    true = (1e-3, 2e-4, 3e-6, 4e-9)
    assert fitted(grid(CostModel(true))).coefficients == pytest.approx(true)
    falling = fitted(grid(CostModel((1.0, -1e-2, 0.0, 0.0))))
    assert min(falling.coefficients) >= 0
    assert falling(1, 16) == pytest.approx(1, abs=0.1)


def test_hostile_bodies_are_what_they_say() -> None:
    limits = Limits()
    sent = bodies(limits)
    assert len(sent["a body over the limit"]) > limits.max_body_bytes
    assert len(json.loads(sent["one pair too many"])["pairs"]) == limits.max_pairs + 1
    assert all(len(body) <= limits.max_body_bytes for name, body in sent.items()
               if name != "a body over the limit")  # fmt: skip


@pytest.mark.slow
def test_everything_is_measured_and_reported(settings: EvaluatorSettings) -> None:
    """On ONNX Runtime as the figures that are kept: its workers start without torch."""
    export(settings.weights)
    figures: Figures = {"commands": ["python -m benchmarks.serving"]}
    measure(settings.model_copy(update={"backend": "onnx"}), PLAN, figures)
    assert set(figures["overload"]["statuses"]) <= {"200", "429"}
    assert figures["overload"]["refused_without_retry_after"] == 0
    assert figures["load"]["pairs"] == 120
    hostile = {line["what"]: line for line in figures["hostile"]}
    assert all(line["neighbour"] == 200 for line in hostile.values())
    assert all(line["neighbour_same"] for line in hostile.values())
    assert hostile["one pair too many"]["status"] == "413"
    assert hostile["nothing"]["status"] == "422"
    assert hostile["10,000 pairs"]["status"] == "413"
    assert figures["repeated"]["forwards"][1] == 0
    assert figures["repeated"]["same"]
    assert figures["killed"]["answered"] == figures["killed"]["same"] == 3
    text = report(json.loads(json.dumps(figures)))
    assert text.count("\n## ") == 9
