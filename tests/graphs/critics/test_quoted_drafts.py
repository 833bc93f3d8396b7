"""A language model as critic of drafts that are quoted: what it calls weak goes."""

import json
from dataclasses import replace

import pytest

from graphs.critics.evaluator import EvaluatorCritic
from graphs.critics.llm import LlmCritic
from graphs.types import Draft, Strip
from tests.fakes import FakeChat, FakeEvaluator
from tests.graphs.languages import EN, ZH, World
from tests.graphs.traced import traced

GRADES = {"relevance": 1, "support": 1, "uncovered": [], "criticism": "Mend it.", "utility": 3}


@pytest.mark.parametrize(("workflow", "world"), [("crag", ZH), ("self_crag", EN)])
async def test_a_sentence_that_it_calls_weak_goes(workflow: str, world: World) -> None:
    wrong = world.full.replace("1852", "1652")
    critic = LlmCritic(FakeChat(keywords=json.dumps({**GRADES, "weak": [2]})), "fake-critic")
    asked = replace(world.parts(f"{world.full} {wrong}").services, critic=critic)
    trace = await traced(
        asked, world.question, workflow, reflect=True, max_critic=1, retrieval="always"
    )

    shown = "".join(event["token"]["text"] for event in trace.said if "token" in event)
    assert "1652" in shown, "it was quoted"
    assert "1652" not in trace.said[-1]["token"]["text"], "then dropped"


async def test_the_evaluator_is_not_asked_whether_a_source_supports_its_own_words() -> None:
    source = Strip(
        "p#0", "p", "The mill opened in 1852. It burned.", "T", "a.md", "internal", (0, 0)
    )
    evaluator = FakeEvaluator()
    draft = Draft("The mill opened in 1852 [1]. The mill stands by the sea [1].", (source,))
    (judgement,), _ = await EvaluatorCritic(evaluator).judge("When did it open?", [draft])

    asked = dict(zip(evaluator.tasks, evaluator.calls, strict=True))["support"]
    assert [pair[0].endswith("The mill stands by the sea.") for pair in asked] == [True]
    assert dict(judgement.supports)["The mill opened in 1852."] == 1.0
