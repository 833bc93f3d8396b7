"""The mean of networks along one run."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evaluator.errors import DataError
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.training.average import average
from evaluator.training.train import train
from tests.evaluator.training.test_train import OPTIONS, folder_of


def head_of(folder: Path) -> torch.Tensor:
    return t5.load(folder, check_folder(folder)).head.weight.detach()


@pytest.mark.slow
def test_weights_are_averaged_by_share_and_validated_anew(tmp_path: Path) -> None:
    data, first, later = folder_of(tmp_path / "data"), tmp_path / "first", tmp_path / "later"
    later.mkdir()
    train(data, first, tmp_path / "a", replace(OPTIONS, rows=64), lambda _: None)
    moved = t5.load(first, check_folder(first))
    with torch.no_grad():
        moved.head.weight += 1
    t5.save(moved, later)
    shutil.copyfile(first / "tokenizer.json", later / "tokenizer.json")
    (mean := tmp_path / "mean").mkdir()
    average({later: 0.25, first: 0.75}, mean, data, tmp_path / "work")

    assert torch.allclose(head_of(mean), head_of(first) + 0.25, atol=2e-2)
    made_by = check_folder(mean)["made_by"]
    assert made_by["averaged"] == {"later": 0.25, "first": 0.75}
    assert any(name.startswith("relevance") for name in made_by["validation"])

    with pytest.raises(DataError, match="one whole"):
        average({first: 0.5, later: 0.4}, mean, data, tmp_path / "work")
