"""Passages are graded among all that were retrieved for the question."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from graphs.types import PoolWeights, Scores, Task
from tests.fakes import FakeEvaluator, FakeRetriever, passage, services
from tests.graphs.languages import World, both_languages
from tests.graphs.traced import Trace, traced

POOL = PoolWeights(scale=0.8, standing=30.0, shift=-1.0)


@dataclass
class NearnessEvaluator(FakeEvaluator):
    """Gives every text the score 0 and the similarity of its last word."""

    near: dict[str, float] = field(default_factory=dict)
    pool: PoolWeights | None = POOL

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self.calls.append(list(pairs))
        near = tuple(self.near.get(text.split()[-1]) for _, text in pairs)
        return Scores(tuple(0.0 for _ in pairs), similarities=near, pool=self.pool)


async def traced_of(world: World, evaluator: NearnessEvaluator) -> Trace:
    retrieved = [passage(f"text {name}", n) for n, name in enumerate(evaluator.near)]
    parts = services(FakeRetriever(retrieved), evaluator)
    return await traced(parts, world.question)


def relevance(trace: Trace) -> dict[str, float]:
    return {it.text.split()[-1]: it.relevance for it in trace.output["documents"]}


@both_languages
async def test_what_stands_out_answers_and_what_is_one_of_many_does_not(world: World) -> None:
    one = await traced_of(world, NearnessEvaluator(near={"a.": 0.1, "b.": 0.0, "c.": 0.01}))
    assert one.output["action"] == "correct"
    assert max(relevance(one), key=relevance(one).__getitem__) == "a."
    even = await traced_of(world, NearnessEvaluator(near={"a.": 0.1, "b.": 0.1, "c.": 0.1}))
    assert even.output["action"] != "correct"
    assert list(relevance(even).values()) == pytest.approx([2 / (1 + math.e) - 1] * 3)


@both_languages
async def test_without_a_pool_each_passage_has_its_score(world: World) -> None:
    near = {"a.": 0.1, "b.": 0.0, "c.": 0.01}
    for evaluator in (
        NearnessEvaluator(near=near, pool=None),
        NearnessEvaluator(near={"a.": 0.1, "b.": 0.0}),
    ):
        trace = await traced_of(world, evaluator)
        assert set(relevance(trace).values()) == {0.0}
