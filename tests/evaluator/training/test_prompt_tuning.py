"""One task of an evaluator trained further: it learns, and the others stay to the bit."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from evaluator.commands import app
from evaluator.errors import DataError
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.model.tokenization import PairTokenizer
from evaluator.training.prompt_tuning import TaskTuning, in_equal_parts, tune
from evaluator.training.train import batch_tensors, fit, of_judgements, part_of, places
from tests.evaluator.tiny import tiny_network, tiny_tokenizer
from tests.evaluator.training.test_train import (
    OPTIONS,
    folder_of,
    groups,
    judgements,
    of_groups,
    train,
)


def read(network: t5.EvaluatorModel) -> torch.Tensor:
    """What the network says of rows of relevance."""
    with torch.inference_mode():
        return network(*batch_tensors(of_groups(groups(8))))[0][:, places("relevance")]


def test_a_task_learns_by_what_it_has_to_itself(tmp_path: Path) -> None:
    network = tiny_network()
    rows = of_judgements(judgements(), PairTokenizer(tiny_tokenizer(), 48))
    before = {name: value.clone() for name, value in t5.tensors(network).items()}
    told = read(network)
    options = replace(OPTIONS, rows=6000, check_every=1000)
    learner = TaskTuning(network, of_groups(rows), options, "retrieval")
    figure, _ = learner.validation()
    fit(learner, rows, options, tmp_path / "run.ckpt", {}, lambda _: None)

    moved = {n: (v != before[n]).any(-1).nonzero().flatten() for n, v in t5.tensors(network).items()
             if not torch.equal(v, before[n])}  # fmt: skip
    assert moved.keys() == {"t5.shared.weight", "tasks.weight", "head.weight", "head.bias"}
    assert len(moved["t5.shared.weight"]) == len(moved["tasks.weight"]) == 1
    assert torch.equal(read(network), told)
    assert learner.validation()[0] >= max(0.9, figure + 0.2)


def test_each_part_of_a_task_is_read_as_often_as_the_largest() -> None:
    needs = of_judgements(judgements(), PairTokenizer(tiny_tokenizer(), 48))
    some = [replace(row, ids=(*row.ids[:-2], 50, *row.ids[-2:])) for (row,) in needs[:10]]
    evidence = [(row,) for row in some]
    parts = [part_of(row) for (row,) in in_equal_parts([*needs, *evidence], seed=1)]
    assert parts.count("need") == parts.count("evidence") == len(needs)


@pytest.mark.slow
def test_an_evaluator_is_written_that_differs_in_one_task(tmp_path: Path) -> None:
    data, first, tuned = folder_of(tmp_path / "data"), tmp_path / "first", tmp_path / "tuned"
    train(data, first, tmp_path / "a", replace(OPTIONS, rows=64), lambda _: None)
    words = ["train", "--task", "retrieval", "--rows", "64"]
    folders = {"data": data, "init": first, "out": tuned, "work": tmp_path / "b"}
    places_told = [f"--{name}={folder}" for name, folder in folders.items()]
    assert CliRunner().invoke(app, [*words, *places_told], catch_exceptions=False).exit_code == 0
    assert "Then retrieval alone" in (tuned / "README.md").read_text(encoding="utf-8")
    assert (tuned / "model.onnx").exists()

    networks = [t5.load(folder, check_folder(folder)) for folder in (first, tuned)]
    rows = [row for group in groups(8) for row in group]
    with torch.inference_mode():
        then, now = (network(*batch_tensors(rows))[0] for network in networks)
    assert torch.equal(then[:, places("relevance")], now[:, places("relevance")])
    made_by, base = (check_folder(folder)["made_by"] for folder in (tuned, first))
    assert made_by["tuned"]["retrieval"]["training"]["rows_seen"] >= 64
    assert {**made_by, "validation": 0, "tuned": 0} == {**base, "validation": 0, "tuned": 0}
    assert made_by["validation"].keys() == base["validation"].keys()

    options = replace(OPTIONS, init=str(first))
    with pytest.raises(DataError, match="no rows of relevance"):
        tune("relevance", data, tuned, tmp_path / "c", options, lambda _: None)
    shutil.rmtree(first)
    with pytest.raises(DataError, match="no evaluator's folder"):
        tune("retrieval", data, tuned, tmp_path / "d", options, lambda _: None)
