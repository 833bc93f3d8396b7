import numpy as np
import pytest

from app.retrieval.embedder import TABLE, StaticEmbedder


def cosine(embedder: StaticEmbedder, left: str, right: str) -> float:
    vectors = embedder.embed([left, right])
    return float(vectors[0] @ vectors[1])


def test_the_shipped_table_is_small() -> None:
    assert sum(file.stat().st_size for file in TABLE.iterdir()) < 16_000_000


def test_vectors_have_length_one_or_are_zero(embedder: StaticEmbedder) -> None:
    vectors = embedder.embed(["A river in France.", "法国的一条河流。", "", "\u16a0\u16a1 \u16a2"])
    assert vectors.shape == (4, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 0, 0], abs=1e-5)


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("Which doctor treats children?", "She is a pediatric physician.", "The train was late."),
        ("a fast car", "a speedy automobile", "a quiet library"),
        ("银行贷款利率", "央行调整信贷政策", "他在公园里散步"),
        ("足球比赛", "球队赢得了冠军", "这座寺庙建于唐代"),
    ],
)
def test_related_texts_are_nearer_than_unrelated_ones(
    embedder: StaticEmbedder, question: str, near: str, far: str
) -> None:
    assert cosine(embedder, question, near) > cosine(embedder, question, far)


def test_traditional_and_simplified_have_the_same_vector(embedder: StaticEmbedder) -> None:
    assert cosine(embedder, "資料庫與檢索", "资料库与检索") == pytest.approx(1, abs=1e-5)


def test_a_text_longer_than_the_encoder_ever_read_counts_to_its_end(
    embedder: StaticEmbedder,
) -> None:
    start = "The harbour is old. " * 60
    assert cosine(embedder, start, start + "Volcanoes erupt lava. " * 60) < 0.95
