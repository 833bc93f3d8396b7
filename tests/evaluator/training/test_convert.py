"""Pickled checkpoints: tensors are taken out, and nothing that they ask for is run."""

import pickle
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from evaluator.errors import WeightsError
from evaluator.inference.scorer import load_scorer
from evaluator.settings import EvaluatorSettings
from evaluator.training.convert import convert
from tests.evaluator.tiny_rerankers import authors_folder


def test_a_checkpoint_of_the_authors_form_is_served_after_its_conversion(tmp_path: Path) -> None:
    authors = authors_folder(tmp_path / "authors")
    tensors = load_file(authors / "model.safetensors")
    (authors / "model.safetensors").unlink()
    torch.save(tensors, authors / "pytorch_model.bin")
    out = tmp_path / "converted"
    assert convert(authors / "pytorch_model.bin", out) == len(tensors)
    converted = load_file(out / "model.safetensors")
    assert all(torch.equal(converted[name], tensors[name]) for name in tensors)
    settings = EvaluatorSettings(weights=out, backend="torch", _env_file=None)  # type: ignore[call-arg]
    assert load_scorer(settings).tasks == ("relevance",)


class Calling:
    """Unpickled, it would connect to an address."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __reduce__(self) -> tuple[Any, ...]:
        return socket.create_connection, (("127.0.0.1", self.port),)


def test_code_in_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        path = tmp_path / "pytorch_model.bin"
        path.write_bytes(pickle.dumps({"weight": Calling(listener.getsockname()[1])}))
        with pytest.raises(WeightsError, match="cannot be converted") as failed:
            convert(path, tmp_path / "out")
        assert "PermissionError" not in str(failed.value), "it was not even tried"
        with pytest.raises(TimeoutError):
            listener.accept()
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_what_is_no_checkpoint_of_tensors_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save({"step": 3, "weight": torch.ones(2)}, path)
    with pytest.raises(WeightsError, match="more than named tensors"):
        convert(path, tmp_path / "out")
    with pytest.raises(WeightsError, match="not a file"):
        convert(tmp_path / "absent.bin", tmp_path / "out")
