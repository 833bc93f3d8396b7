"""Each passage and strip is told as it is graded, not when all of them are."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphs.errors import EvaluatorFailed
from graphs.types import Scores, Task
from tests.fakes import FakeEvaluator, FakeRetriever, passage, services
from tests.graphs.traced import traced

QUESTION = "How tall is the red tower?"
TEXTS = ["The red tower is 87 metres tall.", *(f"Loaf {n} bakes slowly." for n in range(5))]
KNOWN = {text: 0.9 if "tower" in text else -0.9 for text in TEXTS}
PASSAGES = [passage(text, n) for n, text in enumerate(TEXTS)]


@dataclass
class Fragile(FakeEvaluator):
    """Fails where it is asked about the last passage, with all that is asked beside it."""

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        if any("Loaf 4" in text for _, text in pairs):
            raise EvaluatorFailed("the worker is gone")
        return await super().score(task, pairs)


async def test_every_text_is_told_as_it_is_graded() -> None:
    evaluator = FakeEvaluator(known=KNOWN)
    trace = await traced(services(FakeRetriever(PASSAGES), evaluator=evaluator), QUESTION)

    graded = [told for told in trace.progress if told["step"] == "grade"]
    assert [(told["done"], told["total"]) for told in graded] == [(n, 6) for n in range(1, 7)]
    kept = {told["item"]["id"]: told["item"]["kept"] for told in graded}
    assert kept == {it.id: it.id == PASSAGES[0].id for it in PASSAGES}
    assert [told["step"] for told in trace.progress[6:]] == ["refine"] * 6
    assert max(map(len, evaluator.calls)) < len(PASSAGES), "in parts, each told at once"
    assert trace.output["usage"].scored_pairs == 12


async def test_passages_of_a_part_that_failed_are_not_graded_and_so_said() -> None:
    parts = services(FakeRetriever(PASSAGES), evaluator=Fragile(known=KNOWN))
    trace = await traced(parts, QUESTION)

    assert len(trace.output["documents"]) == 4
    assert trace.output["action"] == "correct"
    assert "2 passages could not be graded." in [it.reason for it in trace.output["degraded"]]
