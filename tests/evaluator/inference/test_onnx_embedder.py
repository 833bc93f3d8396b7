"""e5's folder as an embedder; beside its source it is in training/test_pretrained_encoder.py."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evaluator import commands
from evaluator.errors import DataError, WeightsError
from evaluator.inference.scorer import TextEmbedder, load_embedder
from evaluator.settings import EvaluatorSettings
from tests.evaluator.tiny import tiny_e5

QUESTIONS = ["how long is it?", "河流很长？", "who?"]
PASSAGES = ["the river is long. 河流很长", "河流很长", "nobody " * 10]


def loaded(folder: Path) -> TextEmbedder:
    given = {"embedder": folder, "batch_tokens": 100}
    embedder = load_embedder(EvaluatorSettings.model_validate(given))
    assert embedder is not None
    return embedder


@pytest.mark.slow
def test_the_command_writes_the_whole_vocabulary(tmp_path: Path) -> None:
    folder = tmp_path / "e5"
    result = CliRunner().invoke(commands.app, ["embedder", str(folder)], catch_exceptions=False)
    assert result.output == f"written to {folder}\n"
    assert '"vocab_size": 250' in (folder / "config.json").read_text("utf-8")


def test_neither_batch_mates_nor_padding_move_a_vector(e5: Path) -> None:
    embedder = loaded(e5)
    texts = [*QUESTIONS, *PASSAGES, "river " * 50_000, QUESTIONS[0], ""]
    together, tokens = embedder.embed(texts, "passage")
    alone = [embedder.embed([text], "passage") for text in texts]
    assert together == pytest.approx(np.concatenate([vectors for vectors, _ in alone]), abs=1e-5)
    assert together.shape == (len(texts), embedder.dimensions)
    assert tokens == sum(count for _, count in alone)
    assert alone[6][1] == 96  # cut to the longest row
    assert embedder.embed([], "passage")[0].shape == (0, embedder.dimensions)


def test_the_name_is_that_of_encoder_and_tokenizer(e5: Path, tmp_path: Path) -> None:
    """So that an index goes on with a folder made again, and with no other."""
    again = tiny_e5(tmp_path / "again")
    assert loaded(again).name == loaded(e5).name
    tokenizer = again / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + " ", encoding="utf-8")
    names = [loaded(again).name]
    with (again / "model.safetensors").open("r+b") as tensors:
        tensors.seek(-1, 2)
        tensors.write(b"\x01")
    names.append(loaded(again).name)
    assert len({loaded(e5).name, *names}) == 3


def test_what_cannot_become_an_embedder_is_refused_in_words(e5: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not empty"):
        CliRunner().invoke(commands.app, ["embedder", str(e5)], catch_exceptions=False)
    half = shutil.copytree(e5, tmp_path / "half", ignore=shutil.ignore_patterns("*.onnx"))
    with pytest.raises(
        WeightsError, match=r"embedder\.onnx is missing: run `selfcrag-evaluator em"
    ):
        loaded(half)
