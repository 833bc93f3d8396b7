"""The encoder inside the evaluator's weights as an embedder, beside its reading in PyTorch."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from evaluator.errors import WeightsError
from evaluator.inference.scorer import TextEmbedder, load_embedder
from evaluator.model.checkpoint import encoder_digest
from evaluator.model.t5 import COSINE_SCALE, COSINE_SHIFT
from evaluator.model.tokenization import END, SEPARATOR, tokenizer_of
from evaluator.settings import EvaluatorSettings
from evaluator.training.onnx_export import export
from evaluator.training.temperature import margins
from tests.evaluator.tiny import tiny_folder, tiny_network, wide_network

QUESTIONS = ["how long is it?", "河流很长？", "who?"]
PASSAGES = ["the river is long. 河流很长", "河流很长", "nobody " * 10]


def settings(folder: Path) -> EvaluatorSettings:
    given = {"weights": folder, "embedder": "e5", "batch_tokens": 100}
    return EvaluatorSettings.model_validate(given)


def loaded(folder: Path) -> TextEmbedder:
    embedder = load_embedder(settings(folder))
    assert embedder is not None
    return embedder


def test_vectors_are_those_that_the_evaluator_compares(tmp_path: Path) -> None:
    network = wide_network()
    with torch.no_grad():
        words = network.t5.encoder.embeddings.word_embeddings.weight
        words[SEPARATOR] = words[END]  # one token in e5
        torch.nn.init.zeros_(network.head.weight)  # the cosine alone is left
    folder = tiny_folder(tmp_path, network=network)
    export(folder)
    embedder = loaded(folder)
    asked, _ = embedder.embed(QUESTIONS, "query")
    found, _ = embedder.embed(PASSAGES, "passage")
    tokenizer = tokenizer_of(folder, {"max_length": 96})
    pairs = list(zip(QUESTIONS, PASSAGES, strict=True))
    own = (margins(network, tokenizer, pairs) - COSINE_SHIFT) / COSINE_SCALE
    assert (asked * found).sum(1) == pytest.approx(own, abs=0.015)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(3), abs=1e-5)


def test_neither_batch_mates_nor_padding_move_a_vector(exported: Path) -> None:
    embedder = loaded(exported)
    texts = [*QUESTIONS, *PASSAGES, "river " * 50_000, QUESTIONS[0], ""]
    together, tokens = embedder.embed(texts, "passage")
    alone = [embedder.embed([text], "passage") for text in texts]
    assert together == pytest.approx(np.concatenate([vectors for vectors, _ in alone]), abs=1e-5)
    assert together.shape == (len(texts), embedder.dimensions)
    assert tokens == sum(count for _, count in alone)
    assert alone[6][1] == 96  # cut to the longest row
    assert embedder.embed([], "passage")[0].shape == (0, embedder.dimensions)


def test_the_name_is_that_of_encoder_and_tokenizer_alone(tmp_path: Path) -> None:
    """So that an index outlives further training."""
    network = tiny_network()
    digests = [encoder_digest(tiny_folder(tmp_path / "first", network=network))]
    with torch.no_grad():
        network.head.weight += 1
        digests.append(encoder_digest(tiny_folder(tmp_path / "trained", network=network)))
        network.t5.encoder.embeddings.LayerNorm.bias += 1
        digests.append(encoder_digest(tiny_folder(tmp_path / "other", network=network)))
    tokenizer = tmp_path / "first" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + " ", encoding="utf-8")
    digests.append(encoder_digest(tmp_path / "first"))
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_weights_that_cannot_embed_are_refused_in_words(
    exported: Path, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(WeightsError, match=r"embedder\.onnx is missing: run"):
        loaded(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["architecture"] = "selfcrag-t5-cross"
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(WeightsError, match="of a form without multilingual-e5-small"):
        loaded(folder)
    other = tmp_path / "other"
    shutil.copytree(exported, other)
    with (other / "model.safetensors").open("r+b") as tensors:
        tensors.seek(-1, 2)
        tensors.write(b"\x01")
    with pytest.raises(WeightsError, match="other weights: run `selfcrag-evaluator export`"):
        loaded(other)
