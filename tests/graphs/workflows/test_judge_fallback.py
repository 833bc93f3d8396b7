"""Where a language model fails to grade or to judge, the evaluator does for the rest of a run."""

from dataclasses import replace

import pytest

from graphs.critics.evaluator import EvaluatorCritic
from graphs.critics.llm import LlmCritic
from graphs.critics.llm_grader import LlmEvaluator
from graphs.types import Bars, Thresholds
from tests.fakes import FakeChat, FakeCritic, FakeEvaluator
from tests.graphs.languages import EN, ZH, World
from tests.graphs.traced import Trace, traced

OWN = Thresholds(upper=0.45, lower=-0.7, strip_floor=-0.8)
BARS = Bars(support=0.55, utility=2.5, retrieval=0.3)


def evaluator() -> FakeEvaluator:
    return FakeEvaluator(thresholds=OWN, bars=BARS)


@pytest.mark.parametrize("workflow", ["crag", "self_rag", "self_crag"])
@pytest.mark.parametrize("world", [EN, ZH], ids=["en", "zh"])
async def test_the_evaluator_grades_where_the_grader_fails(world: World, workflow: str) -> None:
    chat, own = FakeChat(keywords="Perhaps."), evaluator()
    parts = world.parts(world.full, world.half, critic=FakeCritic(), offline=True)
    services = replace(
        parts.services, evaluator=LlmEvaluator(chat, "m", "direct"), grader_stand_in=own
    )
    trace = await traced(services, world.question, workflow, retrieval="always")

    told = [entry.reason for entry in trace.output["degraded"]]
    assert told == ["m (direct) said neither yes nor no. The evaluator fake-evaluator stood in."]
    assert trace.output["plan"].thresholds == OWN
    assert trace.output["answer"].startswith(world.full[:-1])
    assert all(document.relevance is not None for document in trace.output["documents"])
    assert trace.output["usage"].llm_calls == len(chat.asked)
    assert trace.output["usage"].grading_calls == len(chat.asked)
    if workflow != "self_rag":
        assert trace.output["action"] == "correct"
        assert len(chat.asked) == 2, "strips are not asked about any more"


async def graded_by(stand_in: FakeEvaluator, **options: float) -> Trace:
    """A run of crag whose grader fails."""
    grader = LlmEvaluator(FakeChat(keywords="Perhaps."), "m", "direct")
    parts = EN.parts(EN.full, offline=True)
    services = replace(parts.services, evaluator=grader, grader_stand_in=stand_in)
    return await traced(services, EN.question, "crag", **options)


async def test_the_run_s_own_thresholds_stay() -> None:
    trace = await graded_by(evaluator(), upper=0.9)
    assert trace.output["plan"].thresholds == replace(OWN, upper=0.9)


async def test_where_the_evaluator_fails_as_well_both_are_told() -> None:
    trace = await graded_by(FakeEvaluator(fails_from_call=1))
    assert trace.output["action"] is None
    assert "neither yes nor no" in trace.output["degraded"][0].reason
    assert trace.output["degraded"][1].reason == "the worker is gone"


@pytest.mark.parametrize(
    ("workflow", "options"),
    [("self_rag", {}), ("self_rag", {"beam_depth": 1}), ("self_crag", {})],
    ids=["drafts", "segments", "corrected"],
)
async def test_the_evaluator_judges_where_the_critic_fails(
    workflow: str, options: dict[str, int]
) -> None:
    judge = FakeChat(keywords="I would rather not.")
    chat = FakeChat(chunks=["It opened in 1852 [1]."], keywords="It opened in 1852.")
    parts = EN.parts(EN.full, EN.half, chat=chat, critic=LlmCritic(judge, "m"), offline=True)
    stand_in = EvaluatorCritic(evaluator(), BARS)
    services = replace(parts.services, critic_stand_in=stand_in)
    trace = await traced(services, EN.question, workflow, retrieval="always", **options)

    reasons = [entry.reason for entry in trace.output["degraded"]]
    assert [reason.endswith("The evaluator fake-evaluator stood in.") for reason in reasons] == [
        True
    ]
    assert trace.output["plan"].bars == BARS
    assert trace.output["plan"].critic_failed
    assert trace.output["critique"][0].support is not None
    assert trace.output["judgement"] is not None
    drafts = {"self_rag": 2, "self_crag": 1}[workflow]
    assert len(judge.asked) == 2 * drafts, "asked and asked to mend it, and then no more"
