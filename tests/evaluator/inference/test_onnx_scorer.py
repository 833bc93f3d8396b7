"""What the backends make of a folder, and ONNX against PyTorch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from evaluator.errors import WeightsError
from evaluator.inference.scorer import Scorer, load_scorer
from evaluator.schema import TASKS, Row, RowScore, Task
from evaluator.settings import EvaluatorSettings

PAIRS = [
    ("how long is the river?", "the river is long. 河流很长"),
    ("河流很长？", "河流很长"),
    ("who?", "nobody " * 40),
]


def loaded(folder: Path, backend: str = "torch") -> Scorer:
    return load_scorer(EvaluatorSettings.model_validate({"weights": folder, "backend": backend}))


def scored(
    scorer: Scorer, pairs: list[tuple[str, str]] = PAIRS, task: Task = "relevance"
) -> list[float]:
    rows = [row for row in scorer.encode(task, pairs) if isinstance(row, Row)]
    results = scorer.forward(task, rows)
    return [result.score for result in results if isinstance(result, RowScore)]


@pytest.mark.parametrize("task", TASKS)
def test_onnx_gives_pytorchs_scores(exported: Path, task: Task) -> None:
    runtime, pytorch = loaded(exported, "onnx"), loaded(exported)
    assert scored(runtime, task=task) == pytest.approx(scored(pytorch, task=task), abs=1e-5)
    alone = [scored(runtime, [pair], task)[0] for pair in PAIRS]
    assert scored(runtime, task=task) == pytest.approx(alone, abs=1e-5)
    assert np.ptp(alone) > 1e-4


def test_an_export_of_another_version_is_refused(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "older"
    shutil.copytree(exported, folder)
    model = onnx.load(exported / "model.onnx", load_external_data=False)
    del model.graph.output[1]
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(WeightsError, match="another version: run `selfcrag-evaluator export`"):
        loaded(folder, "onnx")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(WeightsError, match=name):
        loaded(folder)


def test_a_missing_export_names_the_command(folder: Path) -> None:
    with pytest.raises(WeightsError, match="export"):
        loaded(folder, "onnx")


def test_wrong_shapes_are_refused_by_name(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "d_ff": 26}), encoding="utf-8")
    with pytest.raises(WeightsError, match=r"t5\..* \(.*24.*\) .* \(.*26.*\)"):
        loaded(folder)


def test_an_export_that_is_none_is_refused(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(WeightsError, match=r"model\.onnx cannot be loaded"):
        loaded(folder, "onnx")


def test_broken_tensors_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(WeightsError, match="safetensors"):
        loaded(folder)


def test_no_more_is_read_than_the_checkpoint_can(exported: Path) -> None:
    scorer = loaded(exported, "onnx")
    rows = scorer.encode("relevance", [("a" * 90, "河流很长" * 90), ("河流很长" * 90, "a" * 90)])
    assert [len(row.ids) for row in rows if isinstance(row, Row)] == [96, 96]


def test_serving_on_onnx_imports_no_torch() -> None:
    code = (
        "import sys, evaluator.serving.app, evaluator.client\n"
        "import evaluator.inference.onnx_scorer, evaluator.commands\n"
        "sys.exit(any(name.split('.')[0] in ('torch', 'transformers') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
