"""The pretrained encoder as an embedder, and what is learnt over its vectors."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from evaluator.data.synthetic.retrieval import needs
from evaluator.inference.onnx_embedder import OnnxEmbedder
from evaluator.inference.torch_embedder import TorchEmbedder
from evaluator.model.checkpoint import (
    ENCODER_FOLDER,
    NEED_FILE,
    TENSORS_FILE,
    TOKENIZER_FILE,
    WORDS,
)
from evaluator.schema import LABELS
from evaluator.settings import WEIGHTS, EvaluatorSettings
from evaluator.training.embedder import write_need
from tests.evaluator.tiny import tiny_e5


@pytest.mark.slow
def test_the_need_of_retrieval_is_told_for_wordings_that_were_held_back(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(WEIGHTS, tmp_path / "weights")) / ENCODER_FOLDER
    shipped = np.load(folder / NEED_FILE)
    (folder / NEED_FILE).unlink()

    write_need(folder, seed=1)

    layer = np.load(folder / NEED_FILE)
    held = [row for row in needs(seed=1) if row.group == "held"][::4]
    encoder = OnnxEmbedder(folder, EvaluatorSettings())
    vectors, _ = encoder.embed([row.first for row in held], "query")
    is_needed = np.array([row.label == LABELS["retrieval"][0] for row in held])
    logits, kept = (vectors @ each[:-1] + each[-1] for each in (layer, shipped))
    assert ((logits > 0) == (kept > 0)).mean() > 0.97, "the shipped layer was made in this way"
    assert ((logits > 0) == is_needed).mean() > 0.75
    assert (logits > 0)[is_needed].mean() > 0.9


def test_the_shipped_layer_tells_what_needs_retrieval() -> None:
    folder = WEIGHTS / ENCODER_FOLDER
    held = [row for row in needs(seed=1) if row.group == "held"][::16]
    vectors, _ = OnnxEmbedder(folder, EvaluatorSettings()).embed([it.first for it in held], "query")
    layer = np.load(folder / NEED_FILE)
    is_needed = np.array([row.label == LABELS["retrieval"][0] for row in held])
    assert ((vectors @ layer[:-1] + layer[-1] > 0) == is_needed).mean() > 0.75


def test_in_an_evaluators_folder_it_shares_the_vocabulary(tmp_path: Path) -> None:
    alone, evaluator = tiny_e5(tmp_path / "alone"), tmp_path / "evaluator"
    evaluator.mkdir()
    for name in (TOKENIZER_FILE, TENSORS_FILE):
        shutil.copy(alone / name, evaluator)

    shared = tiny_e5(evaluator / ENCODER_FOLDER)

    assert not (shared / TOKENIZER_FILE).exists()
    assert WORDS in {name.partition("|")[0] for name in load_file(alone / TENSORS_FILE)}
    assert WORDS not in {name.partition("|")[0] for name in load_file(shared / TENSORS_FILE)}
    texts = ["how long is the river?", "河流很长"]
    for load in (OnnxEmbedder, TorchEmbedder):
        embedders = [load(each, EvaluatorSettings()) for each in (alone, shared)]
        vectors = [each.embed(texts, "query")[0] for each in embedders]
        np.testing.assert_array_equal(*vectors)
