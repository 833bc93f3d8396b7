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
from evaluator.inference.scorer import Row, RowScore, Scorer, load_scorer
from evaluator.schema import TASKS, Task
from evaluator.settings import EvaluatorSettings
from evaluator.training.onnx_export import export
from tests.evaluator.tiny import tiny_folder, tiny_network

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


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_folder(tmp_path_factory.mktemp("exported"))
    export(folder)
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_onnx_gives_pytorchs_scores(exported: Path, task: Task) -> None:
    runtime, pytorch = loaded(exported, "onnx"), loaded(exported)
    assert scored(runtime, task=task) == pytest.approx(scored(pytorch, task=task), abs=1e-5)
    alone = [scored(runtime, [pair], task)[0] for pair in PAIRS]
    assert scored(runtime, task=task) == pytest.approx(alone, abs=1e-5)
    assert np.ptp(alone) > 1e-4


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_relevance_takes_the_decoder_only_where_it_was_taught(
    exported: Path, tmp_path: Path, backend: str
) -> None:
    scores: dict[bool, list[float]] = {}
    for taught in (False, True):
        folder = tmp_path / str(taught)
        shutil.copytree(exported, folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        told = json.dumps({**config, "relevance_taught": taught})
        (folder / "config.json").write_text(told, encoding="utf-8")
        scores[taught] = scored(loaded(folder, backend))
    assert scores[False] != pytest.approx(scores[True], abs=1e-4)


def test_an_export_of_another_version_is_refused(exported: Path, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "older")
    model = onnx.load(exported / "model.onnx", load_external_data=False)
    model.graph.input[2].name = "other"
    for node in model.graph.node:
        node.input[:] = ["other" if name == "decode" else name for name in node.input]
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(WeightsError, match="another version: run `selfcrag-evaluator export`"):
        loaded(folder, "onnx")


def test_joint_layers_and_decoder_rest_where_only_relevance_is_asked(exported: Path) -> None:
    graph = onnx.load(exported / "model.onnx", load_external_data=False).graph
    (choice,) = (node for node in graph.node if node.op_type == "If")
    always = sum(node.op_type == "Softmax" for node in graph.node)
    assert always == tiny_network().config.own_layers + 1  # and where kinds are weighed
    inside = [node for branch in choice.attribute for node in branch.g.node]
    assert sum(node.op_type == "Softmax" for node in inside) >= tiny_network().config.joint_layers


def test_weights_are_stored_once(exported: Path) -> None:
    graph = (exported / "model.onnx").read_bytes()
    assert b"model.safetensors" in graph
    assert len(graph) < 80_000


def test_serving_on_onnx_imports_no_torch() -> None:
    code = (
        "import sys, evaluator.serving.app, evaluator.client.client\n"
        "import evaluator.inference.onnx_scorer, evaluator.cli\n"
        "sys.exit(any(name.split('.')[0] in ('torch', 'transformers') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


def test_broken_tensors_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(WeightsError, match="safetensors"):
        loaded(folder)


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_no_more_is_read_than_the_checkpoint_can(exported: Path, backend: str) -> None:
    given = {"weights": exported, "backend": backend}
    with pytest.raises(WeightsError, match=r"MAX_LENGTH is 97, .* at most 96 tokens"):
        load_scorer(EvaluatorSettings.model_validate({**given, "max_length": 97}))
    scorer = load_scorer(EvaluatorSettings.model_validate({**given, "max_length": 16}))
    rows = scorer.encode("relevance", [("a" * 90, "河流很长" * 90), ("河流很长" * 90, "a" * 90)])
    assert [len(row.ids) for row in rows if isinstance(row, Row)] == [16, 16]
    assert len(scored(scorer, PAIRS)) == 3
