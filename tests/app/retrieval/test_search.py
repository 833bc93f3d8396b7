"""Modes, weights and filters of a search; the embedder failing; the fast reranker."""

from collections.abc import Sequence

import numpy as np
import pytest

from app.retrieval.embedder import (
    ENCODER_WEIGHTS,
    TABLE_WEIGHTS,
    EmbedderFailed,
    StaticEmbedder,
    Vectors,
    Weights,
)
from app.retrieval.retriever import HybridRetriever, by_ranks, weights_of
from app.retrieval.terms import LexicalReranker, term_tables
from app.retrieval.tokenizer import Segmenter
from graphs.errors import RetrieverFailed
from graphs.options import Filters, Scope, Search
from graphs.types import Passage

PAGES = {
    "en/pump.md": "# Pump house\n\nThe pump was serviced in March by Ms. Lind.\n",
    "en/orchard.md": "# Orchard\n\nApple trees blossom in spring and need nights without frost.\n",
    "en/mill.md": "# Mill\n\nThe windmill grinds barley in autumn.\n",
    "zh/pump.md": "# 水泵房\n\n水泵由林德女士在三月检修。\n",
    "zh/orchard.md": "# 果园\n\n苹果树在春天开花，夜里不能有霜。\n",
}


def names(found: Sequence[Passage]) -> list[str]:
    return [passage.source.removeprefix("docs/") for passage in found]


async def test_a_mode_leaves_the_other_search_out(filled: HybridRetriever) -> None:
    question = "fruit garden"
    assert names(await filled.retrieve(question, 5, Search(mode="bm25"))) == []
    dense = await filled.retrieve(question, 5, Search(mode="dense"))
    assert names(dense)[0] == "en/orchard.md"
    assert {name[:2] for name in names(dense)} == {"en"}
    words = await filled.retrieve("Who serviced the pump?", 5, Search(mode="bm25"))
    assert names(words)[0] == "en/pump.md"
    assert len(words) < len(await filled.retrieve("Who serviced the pump?", 5)) == 3


@pytest.mark.parametrize("search", [Search(fusion="rrf"), Search(alpha=0.3), Search(alpha=0.0)])
@pytest.mark.parametrize(("question", "first"), [("Who serviced the pump?", "en/pump.md"),
                                                 ("谁检修了水泵？", "zh/pump.md")])  # fmt: skip
async def test_every_fusion_finds_what_both_searches_find(
    filled: HybridRetriever, search: Search, question: str, first: str
) -> None:
    found = await filled.retrieve(question, 5, search)
    assert names(found)[0] == first
    assert all(np.isfinite(passage.score) for passage in found)


async def test_filters_hold_in_both_searches_and_in_the_other_language(
    filled: HybridRetriever,
) -> None:
    question = "Who serviced the pump? 水泵"
    for filters, allowed in (
        (Filters(language="zh"), {"zh/pump.md", "zh/orchard.md"}),
        (Filters(sources=["docs/en/o", "*mill*"]), {"en/orchard.md", "en/mill.md"}),
        (Filters(keywords=["barley"]), {"en/mill.md"}),
        (Filters(keywords=["barley"], language="zh"), set()),
        (Filters(document_ids=["' OR '1'='1"]), set()),
    ):
        assert set(names(await filled.retrieve(question, 9, Search(filters=filters)))) <= allowed
    only = Search(filters=Filters(sources=["docs/en/mill.md"]))
    assert names(await filled.retrieve("When is barley ground?", 5, only)) == ["en/mill.md"]


def test_weights_are_the_measured_ones_unless_given() -> None:
    own = TABLE_WEIGHTS["zh"]
    assert weights_of(own, "hybrid", None) == own
    assert weights_of(own, "hybrid", 0.3) == Weights(0.3, 1.0)
    assert weights_of(own, "bm25", 0.3) == Weights(1.0, 0.0)
    assert weights_of(own, "dense", None) == Weights(0.0, 1.0)


def test_reciprocal_ranks_add_up() -> None:
    found = by_ranks({"a": 9.0, "b": 1.0}, {"b": 0.9, "c": 0.1})
    assert found == [("b", 1 / 62 + 1 / 61), ("a", 1 / 61), ("c", 1 / 62)]


class Encoder(StaticEmbedder):
    """Takes every question to mean the orchard."""

    weights = ENCODER_WEIGHTS

    async def embed_query(self, text: str) -> Vectors:
        return await super().embed_query("果园里的苹果树")


async def test_an_encoder_is_trusted_before_words_also_in_chinese(
    filled: HybridRetriever, segmenter: Segmenter
) -> None:
    question = "谁检修了水泵？"
    assert names(await filled.retrieve(question, 5))[0] == "zh/pump.md"
    filled.index.embedder = Encoder(segmenter)  # type: ignore[misc]
    assert names(await filled.retrieve(question, 5))[0] == "zh/orchard.md"
    words_first = Search(alpha=5.0)
    assert names(await filled.retrieve(question, 5, words_first))[0] == "zh/pump.md"


class Away(StaticEmbedder):
    async def embed_query(self, text: str) -> Vectors:
        raise EmbedderFailed("the embedder is away")


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
async def test_words_alone_answer_where_the_embedder_is_away(
    filled: HybridRetriever, segmenter: Segmenter, mode: str
) -> None:
    filled.index.embedder = Away(segmenter)  # type: ignore[misc]
    with pytest.raises(RetrieverFailed, match="is away; found by words alone") as raised:
        await filled.retrieve("Who serviced the pump?", 5, Search(mode=mode))  # type: ignore[arg-type]
    assert names(raised.value.passages) == ["en/pump.md"]
    found = await filled.retrieve("Who serviced the pump?", 5, Search(mode="bm25"))
    assert names(found) == ["en/pump.md"]


async def test_term_weights_order_passages_without_a_model(filled: HybridRetriever) -> None:
    reranker = LexicalReranker(filled.index, term_tables(filled.segmenter))
    found = await filled.retrieve("Who serviced the pump?", 5)
    level = [Passage(p.id, p.text, p.title, p.source, retrieval_score=0.0) for p in reversed(found)]
    scores = await reranker.rerank("Who serviced the pump?", level, Scope())
    assert level[int(np.argmax(scores))].source == "docs/en/pump.md"
    gone = [Passage("gone-1-0..3", "", "", ""), level[0]]
    assert len(await reranker.rerank("Who serviced the pump?", gone, Scope())) == 2
    assert list(await reranker.rerank("anything", [], Scope())) == []
