"""Another order of what was retrieved: by term weights, by the evaluator, by a reranking model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphs.errors import RetrieverFailed
from graphs.nodes.search import reordered
from graphs.options import Scope
from graphs.types import Passage
from tests.fakes import FakeEvaluator, overlap, passage
from tests.graphs.languages import EN, ZH
from tests.graphs.traced import traced


@dataclass
class FakeReranker:
    """The longer a passage, the better."""

    fails: bool = False

    async def rerank(
        self, question: str, passages: Sequence[Passage], scope: Scope
    ) -> Sequence[float]:
        if self.fails:
            raise RetrieverFailed("the term weights are gone")
        return [float(len(item.text)) for item in passages]


def ids(trace: Any) -> list[str]:
    return [document.id for document in trace.output["documents"]]


def test_unscored_passages_stand_behind_in_their_old_order() -> None:
    four = [passage(f"{n}", n) for n in range(4)]
    found = reordered(four, [None, 0.2, None, 0.9])

    assert [(item.id, item.retrieval_score) for item in found] == [
        ("p3", 0.9),
        ("p1", 0.2),
        ("p0", 0.2),
        ("p2", 0.2),
    ]
    assert reordered(four, [None] * 4) == four


@given(st.lists(st.none() | st.floats(-20, 20), max_size=20))
def test_no_passage_is_lost_and_scores_fall(scores: list[float | None]) -> None:
    passages = [passage(f"{n}", n) for n in range(len(scores))]
    found = reordered(passages, scores)

    assert sorted(item.id for item in found) == sorted(item.id for item in passages)
    falling = [item.retrieval_score for item in found]
    assert falling == sorted(falling, reverse=True)


async def test_the_evaluator_orders_the_candidates_and_the_best_are_kept() -> None:
    parts = EN.parts(EN.off, EN.half, EN.full)
    trace = await parts.ask("rag", rerank="evaluator", retrieve_k=2)

    assert trace.inner["retrieve"] == ["search", "rerank"]
    assert parts.retriever.asked == [(EN.question, 50)]
    assert ids(trace) == ["p2", "p1"]
    assert trace.output["documents"][0].retrieval_score == overlap(EN.question, EN.full)
    assert trace.output["documents"][0].relevance is None, "reranked, not graded"
    assert trace.output["usage"].scored_pairs >= 3


async def test_a_model_orders_by_its_own_task() -> None:
    parts = ZH.parts(ZH.off, ZH.full)
    trace = await traced(replace(parts.services, reranks=True), ZH.question, "rag", rerank="model")

    assert ids(trace) == ["p1", "p0"]
    assert parts.evaluator.tasks[0] == "rerank"
    assert parts.evaluator.calls[0][0] == (ZH.question, f"Page 0 // {ZH.off}")


async def test_term_weights_order_without_scoring_a_pair() -> None:
    parts = EN.parts(EN.off, EN.full)
    served = replace(parts.services, lexical=FakeReranker())
    trace = await traced(served, EN.question, "rag", rerank="lexical")

    assert ids(trace) == ["p1", "p0"]
    assert trace.failed == []


async def test_where_reranking_fails_the_order_of_the_search_stands() -> None:
    parts = EN.parts(EN.off, EN.half, EN.full)
    cases = [
        (replace(parts.services, lexical=FakeReranker(fails=True)), "lexical", "retriever"),
        (parts.services, "lexical", "retriever"),
        (parts.services, "model", "evaluator"),
    ]
    for served, by, component in cases:
        trace = await traced(served, EN.question, "rag", rerank=by, retrieve_k=2)
        assert ids(trace) == ["p0", "p1"]
        assert component in trace.failed


async def test_a_passage_that_cannot_be_scored_is_told() -> None:
    parts = EN.parts(EN.off, EN.full, evaluator=FakeEvaluator(known={EN.off: None}))
    trace = await parts.ask("rag", rerank="evaluator")

    assert ids(trace) == ["p1", "p0"]
    assert "1 passages could not be reranked." in {e.reason for e in trace.output["degraded"]}


async def test_a_later_look_brings_the_next_ones_too() -> None:
    parts = EN.parts(*[EN.off] * 3, EN.half, EN.full, offline=True)
    trace = await parts.ask(
        "self_rag", rerank="evaluator", retrieve_k=1, upper=2.0, lower=2.0, retrieval="always"
    )

    assert trace.inner["retrieve"] == ["search", "rerank"] * 2
    assert len(ids(trace)) == 2
