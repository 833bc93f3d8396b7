import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.retrieval.embedder import Weights
from app.retrieval.retriever import fuse

SCORES = st.dictionaries(
    st.sampled_from("abcdef"), st.floats(-1e6, 1e6, allow_nan=False), max_size=6
)


def test_the_papers_weights() -> None:
    order = fuse({"a": 10.0, "b": 5.0, "c": 0.0}, {"b": 0.9, "d": 0.1}, Weights(0.3, 1.0))
    assert [key for key, _ in order] == ["b", "a", "c", "d"]
    assert dict(order) == pytest.approx({"b": 0.3 * 0.5 + 1.0, "a": 0.3, "d": 0.0, "c": 0.0})


def test_equal_scores_are_finite_and_count() -> None:
    order = fuse({"a": 2.0, "b": 2.0}, {"a": 0.5, "c": 0.5}, Weights(0.3, 1.0))
    assert dict(order) == pytest.approx({"a": 1.3, "c": 1.0, "b": 0.3})


def test_a_weight_of_zero_leaves_the_dense_score_to_decide_ties() -> None:
    order = fuse({"a": 2.0, "b": 1.0}, {"c": 0.2, "d": 0.9, "b": 0.1}, Weights(1.0, 0.0))
    assert [key for key, _ in order] == ["a", "d", "c", "b"]


@given(SCORES, SCORES)
def test_the_union_comes_back_sorted_and_finite(
    lexical: dict[str, float], dense: dict[str, float]
) -> None:
    order = fuse(lexical, dense, Weights(0.3, 1.0))
    scores = [score for _, score in order]
    assert {key for key, _ in order} == lexical.keys() | dense.keys()
    assert len(order) == len(lexical.keys() | dense.keys())
    assert scores == sorted(scores, reverse=True)
    assert all(math.isfinite(score) and 0 <= score <= 1.3 + 1e-9 for score in scores)
    # The best of each search has that search's whole weight.
    joined = dict(order)
    for found, weight in ((lexical, 0.3), (dense, 1.0)):
        if found:
            assert joined[max(found, key=lambda key: found[key])] >= weight
