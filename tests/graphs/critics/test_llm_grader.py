"""A language model as CRAG's evaluator, over HTTP, asked in the paper's three ways."""

import re
from itertools import product
from typing import get_args

import pytest

from app.llm.chat import EndpointChat
from graphs.critics.llm_grader import THRESHOLDS, LlmEvaluator, Mode
from graphs.errors import EvaluatorFailed
from graphs.grading.actions import action_of
from graphs.ports import Evaluator
from tests.loopback.critic import CriticServer

MODES: tuple[Mode, ...] = get_args(Mode)
pytestmark = pytest.mark.asyncio(loop_scope="module")
PAIRS = {
    "en": ("What does a lighthouse do?", "Lighthouse // A lighthouse warns ships."),
    "zh": ("灯塔有什么用？", "灯塔 // 灯塔为船只引航。"),
}


@pytest.mark.parametrize("mode", MODES)
async def test_a_score_is_the_probability_of_yes(
    chat: EndpointChat, critic_server: CriticServer, mode: Mode
) -> None:
    evaluator: Evaluator = LlmEvaluator(chat, "stand-in", mode)
    for language, yes in product(PAIRS, (0.9, 0.3)):
        critic_server.yes = yes
        scores = await evaluator.score("relevance", [PAIRS[language]])

        assert scores.values == (pytest.approx(2 * yes - 1),)
        asked = critic_server.prompts[-1]
        assert all(text in asked for text in PAIRS[language])
        assert asked.count("<passage>") == (4 if mode == "few_shot" else 0)
        assert len(re.findall(r"^<passage-[0-9a-f]{16}>$", asked, re.MULTILINE)) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_without_log_probabilities_it_is_yes_or_no(
    chat: EndpointChat, critic_server: CriticServer, mode: Mode
) -> None:
    critic_server.takes_logprobs = False
    evaluator = LlmEvaluator(chat, "stand-in", mode)
    assert (await evaluator.score("relevance", [PAIRS["en"]])).values == (1,)
    critic_server.yes = 0.4
    assert (await evaluator.score("relevance", [PAIRS["zh"]])).values == (-1,)


async def test_replies_are_read_as_they_come(
    chat: EndpointChat, critic_server: CriticServer
) -> None:
    critic_server.tells_logprobs = False
    evaluator = LlmEvaluator(chat, "stand-in", "direct")
    for reply, score in (
        ("Yes.", 1),
        ("**No**", -1),
        ("是的", 1),
        ("不是", -1),
        ("是否有助很难说", None),
        ("<think>no, wait</think>\nyes", 1),
        ("It is no use to guess.\nAnswer: **yes**", 1),
        ("Answer: yes?\nNo.\nAnswer: no", -1),
        ('Answer: no\nThe passage says "Answer: yes", which is an order.', -1),
        ("The passage yesterday said nothing.", None),
        ("The answer is yes.", 1),
        ("It tells the year.\nSo I would say **no**.", -1),
        ("There is no information in it.", None),
        ("It may be yes or no.", None),
        ("No doubt about it is left. The answer: yes", -1),
        ("答案是否。", -1),
        ("文中提到了灯塔，所以回答是“是”。", 1),
        ("这是一座灯塔。", None),
        ("可能是，也可能否。", None),
    ):
        critic_server.replies = [reply]
        if score is None:
            with pytest.raises(EvaluatorFailed, match="neither yes nor no"):
                await evaluator.score("relevance", [PAIRS["en"]])
        else:
            assert (await evaluator.score("relevance", [PAIRS["en"]])).values == (score,)


async def test_pairs_are_asked_side_by_side_and_one_may_be_lost(
    chat: EndpointChat, critic_server: CriticServer
) -> None:
    critic_server.together = 4
    critic_server.replies = ["Perhaps."]
    values = (await LlmEvaluator(chat, "m", "direct").score("relevance", [PAIRS["en"]] * 4)).values
    assert critic_server.most_at_once == 4
    assert values.count(None) == 1
    assert values.count(pytest.approx(0.8)) == 3


async def test_a_failing_endpoint_is_a_failed_evaluator(
    chat: EndpointChat, critic_server: CriticServer
) -> None:
    critic_server.status = 500
    evaluator = LlmEvaluator(chat, "stand-in", "direct")
    with pytest.raises(EvaluatorFailed, match="failing"):
        await evaluator.score("relevance", [PAIRS["en"]])
    assert (await evaluator.score("relevance", [])).values == ()


async def test_other_tasks_are_refused(chat: EndpointChat) -> None:
    evaluator = LlmEvaluator(chat, "stand-in", "few_shot")
    with pytest.raises(EvaluatorFailed, match="relevance alone, not support"):
        await evaluator.score("support", [("a", "b")])
    assert evaluator.name == "stand-in (few shot)"
    assert await evaluator.ready()


async def test_the_thresholds_tell_yes_from_no() -> None:
    upper, lower = THRESHOLDS.upper, THRESHOLDS.lower
    assert action_of([-1, 1], upper, lower) == "correct"
    assert action_of([-1, -1], upper, lower) == "incorrect"
    assert action_of([-1, 0], upper, lower) == "ambiguous"
