"""Relevance from two readings: the T5's across the texts and the encoder's of each alone."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evaluator.calibration.fusion import store
from evaluator.errors import WeightsError
from evaluator.inference import fusion
from evaluator.inference.fusion import FusionWeights
from evaluator.inference.scorer import (
    Scorer,
    TextEmbedder,
    e5_embedder,
    in_batches,
    load_scorer,
    load_similarity,
    scores_of,
)
from evaluator.model.checkpoint import CENTRE_FILE, ENCODER_FOLDER, NEED_FILE, weights_digest
from evaluator.schema import RowScore
from evaluator.settings import EvaluatorSettings
from tests.evaluator.tiny import tiny_e5

WEIGHTS = FusionWeights(
    similarity=20.0, repetition=0.5, doubt=3.0, free=0.01, scale=0.7, shift=-0.5
)
PAIRS = [
    ("how long is the river?", "the river is long. 河流很长"),
    ("how long is the river?", "nobody knows"),
    ("河流很长？", "河流很长"),
]


@pytest.fixture(scope="module")
def both(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint with an encoder beside its T5."""
    folder = tmp_path_factory.mktemp("both") / "weights"
    shutil.copytree(exported, folder)
    encoder = tiny_e5(folder / ENCODER_FOLDER)
    centre = np.linspace(-0.1, 0.1, 256, dtype=np.float32)
    np.save(encoder / CENTRE_FILE, centre)
    store(WEIGHTS, folder)
    return folder


def settings(folder: Path, backend: str = "onnx") -> EvaluatorSettings:
    return EvaluatorSettings.model_validate({"weights": folder, "backend": backend})


def relevance(scorer: Scorer, pairs: Sequence[tuple[str, str]] = PAIRS) -> list[float]:
    return scores_of(scorer)("relevance", pairs)


def test_both_readings_make_the_relevance(both: Path) -> None:
    alone = np.array(relevance(load_scorer(settings(both), fused=False)))
    near, again = np.array(load_similarity(settings(both)).of(PAIRS)).T
    logits = 2 * np.arctanh(alone)
    more = np.maximum(again - 0.01, 0)
    evidence = logits + 20 * (near - 0.5 * more) + 3 * np.minimum(logits, 0) * more
    expected = 2 / (1 + np.exp(0.5 - 0.7 * evidence)) - 1
    scorer = load_scorer(settings(both))
    assert relevance(scorer) == pytest.approx(expected, abs=1e-5)
    for task, shift in (("answer", 1.0), ("relevance", 0.0)):
        judged = in_batches(scorer, task, PAIRS)  # type: ignore[arg-type]
        assert all(isinstance(row, RowScore) for row in judged)
        scores = [row.score * (1 + shift) - shift for row in judged if isinstance(row, RowScore)]
        assert scores == pytest.approx(expected, abs=1e-5)
        labels = [row.label for row in judged if isinstance(row, RowScore)]
        assert labels == ["[Relevant]" if value > 0 else "[Irrelevant]" for value in expected]
    for task in ("support", "utility"):
        fused, plain = (
            scores_of(each)(task, PAIRS)  # type: ignore[arg-type]
            for each in (scorer, load_scorer(settings(both), fused=False))
        )
        assert fused == plain


def test_a_cosine_is_centred_for_its_question(both: Path) -> None:
    """So that a question which is near to anything ranks as before and counts for less."""
    near, again = np.array(load_similarity(settings(both)).of(PAIRS)).T
    encoder = e5_embedder(settings(both))
    texts, _ = encoder.embed([second for _, second in PAIRS], "passage")
    centre = np.load(both / ENCODER_FOLDER / CENTRE_FILE)
    for kind, values in (("query", near), ("passage", again)):
        questions, _ = encoder.embed([first for first, _ in PAIRS], kind)  # type: ignore[arg-type]
        expected = (questions * texts).sum(1) - questions @ centre
        assert values == pytest.approx(expected, abs=2e-3)  # vectors are kept in half precision


def test_a_text_that_repeats_the_question_needs_the_t5() -> None:
    """It is the nearest of all, whatever it says."""
    evidence = FusionWeights(similarity=17.2, repetition=0.891, doubt=4.04).evidence
    assert evidence(0.5, 0.1, 0) > evidence(0.5, 0, 0)
    assert evidence(0.5, 0.2, 0.13) == evidence(0.5, 0.2, 0)
    assert evidence(0.5, 0.2, 0.3) < evidence(0.5, 0.2, 0.13)
    lost = [evidence(own, 0.1, 0) - evidence(own, 0.1, 0.3) for own in (0.1, 0.5, 0.9)]
    assert lost[0] > lost[1] == pytest.approx(lost[2])


def test_torch_gives_the_scores_of_onnx(both: Path) -> None:
    on_onnx, on_torch = (relevance(load_scorer(settings(both, name))) for name in ("onnx", "torch"))
    assert on_onnx == pytest.approx(on_torch, abs=0.05)


def test_the_encoder_alone_tells_whether_a_question_needs_retrieval(
    both: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(both, folder)
    pairs = [("how long is the river?", ""), ("河流很长？", " "), ("河流很长？", "河流很长")]
    plain = scores_of(load_scorer(settings(both)))("retrieval", pairs)
    assert plain == scores_of(load_scorer(settings(both), fused=False))("retrieval", pairs)
    layer = np.random.default_rng(1).normal(size=257).astype(np.float32)
    np.save(folder / ENCODER_FOLDER / NEED_FILE, layer)
    assert weights_digest(folder) != weights_digest(both)
    vectors, _ = e5_embedder(settings(both)).embed([question for question, _ in pairs[:2]], "query")
    expected = 1 / (1 + np.exp(-(vectors @ layer[:-1] + layer[-1])))
    judged = in_batches(load_scorer(settings(folder)), "retrieval", pairs)
    assert all(isinstance(row, RowScore) for row in judged)
    scores = [row.score for row in judged if isinstance(row, RowScore)]
    assert scores[:2] == pytest.approx(expected, abs=0.02)  # vectors are kept in half precision
    assert scores[2] == pytest.approx(plain[2])  # of another batch


class Counting:
    """An encoder that counts what it reads."""

    def __init__(self, encoder: TextEmbedder) -> None:
        self.name, self.dimensions = encoder.name, encoder.dimensions
        self._encoder = encoder
        self.read: list[str] = []

    def embed(self, texts: Sequence[str], input_type: object) -> object:
        self.read += texts
        return self._encoder.embed(texts, input_type)  # type: ignore[arg-type]


def test_a_text_met_again_is_not_read_again(both: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "KEPT_TEXTS", 3)
    monkeypatch.setattr(fusion, "KEPT_QUESTIONS", 2)
    encoder = Counting(e5_embedder(settings(both)))
    similarity = fusion.CentredCosines(encoder, both / ENCODER_FOLDER)  # type: ignore[arg-type]
    first = similarity.of([*PAIRS, PAIRS[0]])
    questions, texts = ({pair[side] for pair in PAIRS} for side in (0, 1))
    assert sorted(encoder.read) == sorted([*questions, *questions, *texts])
    assert similarity.of(PAIRS[2:]) == first[2:3]
    assert len(encoder.read) == 7
    similarity.of([(f"What is {n}?", PAIRS[2][1]) for n in range(9)])
    assert encoder.read.count(PAIRS[2][1]) == 1, "questions push no text out"
    similarity.of(PAIRS)
    assert all(encoder.read.count(question) == 4 for question in questions), "they were let go"


def test_what_cannot_be_read_is_named(both: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(both, tmp_path / "weights")
    digest = weights_digest(folder)
    store(WEIGHTS.model_copy(update={"scale": 2.0}), folder)
    assert weights_digest(folder) != digest  # thresholds are of these scores
    (folder / "fusion.json").write_text('{"score": -1}', encoding="utf-8")
    with pytest.raises(WeightsError, match=r"fusion\.json cannot be read"):
        load_scorer(settings(folder))
    store(WEIGHTS.model_copy(update={"scale": 2.0}), folder)
    (folder / ENCODER_FOLDER / CENTRE_FILE).write_bytes(b"nothing")
    with pytest.raises(WeightsError, match=r"centre\.npy cannot be read"):
        load_scorer(settings(folder))
    shutil.rmtree(folder / ENCODER_FOLDER)
    with pytest.raises(WeightsError, match=r"encoder.model\.safetensors is missing"):
        load_scorer(settings(folder))
