"""What a run has spent: every call of a language model, whoever makes it and however it ends."""

from dataclasses import replace
from typing import Any

import pytest

from graphs.critics.llm import LlmCritic
from graphs.critics.llm_grader import LlmEvaluator
from graphs.errors import EvaluatorFailed
from tests.fakes import FakeChat
from tests.graphs.languages import EN, ZH, World
from tests.graphs.traced import traced

WORKFLOWS = {"crag": {"reflect": True}, "self_rag": {}, "self_crag": {}}
UNREADABLE = "Yes, whatever."


@pytest.mark.parametrize("world", [EN, ZH], ids=["en", "zh"])
@pytest.mark.parametrize("workflow", WORKFLOWS)
async def test_calls_of_grader_writer_and_failed_critic_all_count(
    workflow: str, world: World
) -> None:
    chat = FakeChat(chunks=[f"{world.full[:-1]} [1]."], keywords=UNREADABLE)
    parts = world.parts(world.full, world.half, chat=chat, offline=True)
    services = replace(
        parts.services, evaluator=LlmEvaluator(chat, "m", "direct"), critic=LlmCritic(chat, "m")
    )
    options: dict[str, Any] = {**WORKFLOWS[workflow], "max_llm_calls": 5, "max_tokens": 30}
    trace = await traced(services, world.question, workflow, **options)

    usage, calls = trace.output["usage"], len(chat.asked)
    assert "critic" in trace.failed
    assert (usage.llm_calls, usage.input_tokens, usage.output_tokens) == (
        calls,
        10 * calls,
        3 * calls,
    )
    assert usage.grading_calls == usage.scored_pairs > 1
    assert usage.grading_tokens == 13 * usage.grading_calls
    assert trace.output["generator"] == "fake-chat", "what is graded is no part of the budget"


async def test_a_grader_that_fails_has_spent_all_the_same() -> None:
    chat = FakeChat(chunks=["It opened in 1852 [1]."], keywords="Perhaps.")
    parts = EN.parts(EN.full, EN.half, chat=chat, offline=True)
    evaluator = LlmEvaluator(chat, "m", "direct")
    with pytest.raises(EvaluatorFailed, match="neither yes nor no"):
        await evaluator.score("relevance", [(EN.question, EN.full)])
    chat.asked.clear()
    trace = await traced(replace(parts.services, evaluator=evaluator), EN.question, "crag")

    assert "evaluator" in trace.failed
    assert trace.output["usage"].llm_calls == len(chat.asked)
    assert trace.output["usage"].grading_calls == len(chat.asked) - 1
    assert trace.output["usage"].input_tokens == 10 * len(chat.asked)
