"""Whoever writes an answer, and in whichever workflow, it links to its sources alone."""

from dataclasses import replace
from typing import Any

import pytest

from graphs.ports import Reflected, Services
from graphs.state import Context
from graphs.types import Judgement, Passage, Strip, Usage
from graphs.workflows.registry import WORKFLOWS
from tests import fakes
from tests.exfiltration import CITED, U, live
from tests.umbra import ENGLISH

SAID = f"The red tower of Umbra is 87 metres tall ![a]({U}) by {CITED} and <img src={U}>."
TOWER = Passage("p1", SAID, "Tower", CITED, 0.1)


class Reflective:
    """Writes what a hostile page told it, once."""

    name = "reflective"

    async def write(
        self, _: str, passage: Strip | None = None, said: str | None = None
    ) -> Reflected:
        return Reflected("" if said else SAID, Judgement(1.0, 1.0, 1.0), Usage(llm_calls=1))


WRITERS: dict[str, Services] = {
    "extractive": fakes.services(fakes.FakeRetriever([TOWER])),
    "chat": fakes.services(fakes.FakeRetriever([TOWER]), chat=fakes.FakeChat(chunks=[SAID])),
    "revised": fakes.services(
        fakes.FakeRetriever([TOWER]),
        chat=fakes.ScriptedChat(answers=["Tall [1].", f"{SAID} [1]"]),
        critic=fakes.FakeCritic(script=[fakes.POOR, fakes.GOOD]),
    ),
    "reflective": replace(
        fakes.services(fakes.FakeRetriever([TOWER])),
        reflective=Reflective(),
        chat_name="reflective",
    ),
}


async def asked(services: Services, workflow: str, **options: Any) -> Any:
    graph: Any = WORKFLOWS[workflow].build(services)
    return await graph.ainvoke({"question": ENGLISH}, context=Context(**options))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("workflow", WORKFLOWS)
async def test_an_answer_links_to_its_sources_alone(workflow: str, writer: str) -> None:
    answer = await asked(WRITERS[writer], workflow)
    assert live(answer["answer"], [CITED]) == []
    for cited in answer["citations"]:
        assert all(0 <= start < end <= len(answer["answer"]) for start, end in cited.spans)


@pytest.mark.parametrize("writer", ["extractive", "chat", "reflective"])
async def test_segments_link_to_their_sources_alone(writer: str) -> None:
    answer = await asked(WRITERS[writer], "self_rag", beam_depth=2)
    assert "hxxps://" in answer["answer"]
    assert live(answer["answer"], [CITED]) == []
    assert [it.component for it in answer["degraded"]] == ["generator"]


async def test_an_answer_without_knowledge_links_to_nothing() -> None:
    answer = await asked(WRITERS["chat"], "self_crag", retrieval="never")
    assert "hxxps://docs" in answer["answer"]
    assert live(answer["answer"], []) == []


async def test_a_choice_stays_the_callers() -> None:
    services = fakes.services(fakes.FakeRetriever([TOWER]), chat=fakes.FakeChat(chunks=["<b>"]))
    answer = await asked(services, "crag", choices=["<a>", "<b>"])
    assert answer["answer"] == "<b>"
