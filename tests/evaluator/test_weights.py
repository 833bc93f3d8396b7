"""What is shipped holds together."""

import json
from pathlib import Path

import numpy as np
import pytest

from evaluator.errors import WeightsError
from evaluator.inference.scorer import Scorer, load_scorer
from evaluator.model.checkpoint import load_thresholds
from evaluator.schema import Row, RowScore
from evaluator.settings import WEIGHTS, EvaluatorSettings

PAIRS = [
    ("How long is the river?", "The river is 212 kilometres long and flows north."),
    ("这条河有多长？", "这条河全长二百一十二公里，向北流入大海。"),
    ("How long is the river?", "Bread is baked from flour. " * 30),
]


def test_thresholds_belong_to_the_shipped_weights() -> None:
    thresholds = load_thresholds(WEIGHTS)
    assert -1 < thresholds.lower < thresholds.upper < 1
    assert thresholds.questions >= 200


def test_the_folder_is_small_and_tells_its_story() -> None:
    assert sum(p.stat().st_size for p in WEIGHTS.rglob("*") if p.is_file()) < 60 * 10**6
    assert [path.name for path in WEIGHTS.glob("*.safetensors")] == ["model.safetensors"]
    made_by = json.loads((WEIGHTS / "config.json").read_text(encoding="utf-8"))["made_by"]
    assert made_by["data"]
    assert not any(name.startswith("bench_") for name in made_by["data"])
    assert "seed" in made_by["options"]
    assert (WEIGHTS / "README.md").is_file()


def test_weights_of_another_form_are_refused(tmp_path: Path) -> None:
    for path in WEIGHTS.iterdir():
        (tmp_path / path.name).symlink_to(path)
    config = json.loads((WEIGHTS / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config | {"architecture": "older"}))
    with pytest.raises(WeightsError, match="of the form older"):
        load_scorer(EvaluatorSettings(weights=tmp_path), fused=False)


def test_shipped_onnx_stays_close_to_pytorch(shipped: Scorer) -> None:
    pytorch = load_scorer(EvaluatorSettings(backend="torch", device="cpu"))
    rows = [row for row in shipped.encode("relevance", PAIRS) if isinstance(row, Row)]
    both = [scorer.forward("relevance", rows) for scorer in (shipped, pytorch)]
    left, right = ([r.score for r in found if isinstance(r, RowScore)] for found in both)
    assert len(left) == len(PAIRS)
    assert np.allclose(left, right, atol=0.08), "int8 activations move a score, but not far"


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("Who painted the ceiling of the chapel?", "Set the port to 8000 and restart the worker."),
        ("谁画了教堂的天花板？", "把端口设为8000，然后重启工作进程。"),
    ],
)
def test_something_else_entirely_is_below_lower(
    shipped: Scorer, question: str, passage: str
) -> None:
    (row,) = shipped.encode("relevance", [(question, passage)])
    assert isinstance(row, Row)
    (found,) = shipped.forward("relevance", [row])
    assert isinstance(found, RowScore)
    assert found.score < load_thresholds(WEIGHTS).lower


def test_a_short_sentence_that_answers_needs_no_neighbours(shipped: Scorer) -> None:
    question = "How tall is the red tower of Umbra?"
    texts = [
        "The red tower of Umbra is 87 metres tall.",
        "The keeper of the red tower of Umbra lights the lamp at dusk.",
    ]
    rows = shipped.encode("relevance", [(question, text) for text in texts])
    found = shipped.forward("relevance", [row for row in rows if isinstance(row, Row)])
    right, beside = (row.score for row in found if isinstance(row, RowScore))
    assert right > max(beside, load_thresholds(WEIGHTS).upper)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_bf16_stays_close(shipped: Scorer, device: str) -> None:
    settings = EvaluatorSettings(backend="torch", device=device, precision="bf16")
    rows = [row for row in shipped.encode("relevance", PAIRS) if isinstance(row, Row)]
    both = [scorer.forward("relevance", rows) for scorer in (shipped, load_scorer(settings))]
    left, right = ([r.score for r in found if isinstance(r, RowScore)] for found in both)
    assert np.allclose(left, right, atol=0.05)
