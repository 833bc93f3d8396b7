"""A language model as critic of drafts that are quoted: what it calls weak goes."""

import json
from dataclasses import replace

import pytest

from graphs.critics.llm import LlmCritic
from tests.fakes import FakeChat
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
