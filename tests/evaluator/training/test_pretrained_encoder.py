"""The pretrained encoder as read from its package, whole and with a vocabulary cut to texts."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from evaluator.errors import DataError
from evaluator.inference.scorer import load_embedder
from evaluator.model.t5 import EvaluatorModel, ModelConfig
from evaluator.model.tokenization import SPECIAL_TOKENS, UNKNOWN, stored_form
from evaluator.settings import EvaluatorSettings
from evaluator.training.embedder import build
from evaluator.training.pretrained_encoder import (
    Source,
    cut_tokenizer,
    fill,
    read_source,
    source_path,
    unigram,
    whole_tokenizer,
)
from evaluator.training.untrained import UntrainedEncoder, cosines


@pytest.fixture(scope="module")
def source() -> Source:
    return read_source(source_path())


def test_the_file_is_multilingual_e5_small(source: Source) -> None:
    sizes = (source.width, source.layers, source.heads, source.feed_forward, source.positions)
    assert sizes == (384, 12, 12, 1536, 512)
    assert len(source.pieces) == 250_002
    assert source.tensors["emb.word"].shape == (250_037 * 384,)
    word = source.tensors["emb.word"][: 384 * 1000]
    assert 0.01 < np.abs(word).mean() < 1


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.bin").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(DataError, match=r"not a model file"):
        read_source(tmp_path / "other.bin")


TEXTS = [
    "The lock is released when the owner calls release().",
    "所有者调用 release() 时锁即被释放。",
    "Bananas ripen faster in a paper bag.",
]


@pytest.fixture(scope="module")
def cut(source: Source) -> Tokenizer:
    return cut_tokenizer(source, [*TEXTS, "query: passage: When is the"], 12_000)


def test_a_cut_vocabulary_cuts_its_texts_as_the_whole_one(source: Source, cut: Tokenizer) -> None:
    whole = whole_tokenizer(source)
    for text in TEXTS:
        assert cut.encode(text).tokens == whole.encode(text, add_special_tokens=False).tokens
    assert cut.get_vocab_size() <= 12_000
    assert [cut.token_to_id(stored_form(t)) for t in SPECIAL_TOKENS[:3]] == [0, 1, 2]
    assert 2 not in cut.encode("鬱 檯 凹 Zürich ∀").ids[:3]  # characters of both scripts are kept


def test_pieces_that_are_not_of_the_source_are_refused(source: Source) -> None:
    pieces = [*map(stored_form, SPECIAL_TOKENS), "▁zzzqqq"]
    tokenizer = unigram([(piece, -1.0) for piece in pieces], UNKNOWN)
    with pytest.raises(DataError, match="knows no '▁zzzqqq'"):
        fill(EvaluatorModel(ModelConfig(tokenizer.get_vocab_size())), source, tokenizer)


def test_the_encoder_knows_the_same_in_both_languages() -> None:
    english, chinese, other = cosines([("When is the lock released?", text) for text in TEXTS])
    assert english > other + 0.05
    assert chinese > other + 0.05
    assert 0.6 < other < english < 1


def test_a_network_and_an_embedder_begin_as_their_source(cut: Tokenizer, tmp_path: Path) -> None:
    """What the encoder reads with a cut vocabulary is what the whole one and ONNX give."""
    question = "When is the lock released?"
    expected = UntrainedEncoder(cut).cosines([(question, text) for text in TEXTS])
    assert expected == pytest.approx(cosines([(question, text) for text in TEXTS]), abs=2e-2)
    folder = build(tmp_path / "e5", tokenizer=cut)
    embedder = load_embedder(EvaluatorSettings.model_validate({"embedder": folder}))
    assert embedder is not None
    asked, _ = embedder.embed([question], "query")
    found, _ = embedder.embed(TEXTS, "passage")
    assert (asked @ found.T)[0] == pytest.approx(expected, abs=0.015)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
