"""Critics, graders and the native generator as the settings choose them, asked by whole runs."""

from pathlib import Path
from typing import Any

import pytest

from app.composition.services import MODES, chosen_critic, chosen_grader, open_services
from app.errors import StartFailed
from app.llm.chat import chat_model
from app.settings import Settings
from graphs.ports import Services
from graphs.state import Answer, Context
from graphs.workflows.registry import WORKFLOWS
from tests.app.knowledge import PAGES
from tests.fakes import FakeEvaluator
from tests.loopback.critic import CriticServer
from tests.loopback.openai import MODEL, OPENAI_KEY
from tests.loopback.reflective import NATIVE_MODEL, ReflectiveServer

TALL = "How tall is the red tower of Umbra?"
assert "87 metres" in PAGES["en/tower.md"]


def settings_of(data_dir: Path, **changed: Any) -> Settings:
    return Settings(_env_file=None, data_dir=data_dir, search="off", **changed)


@pytest.fixture
def by_chat(critic_server: CriticServer) -> dict[str, Any]:
    return {
        "chat_model": f"openai:{MODEL}@{critic_server.base_url}",
        "chat_api_key": OPENAI_KEY,
    }


@pytest.fixture
def native(reflective_server: ReflectiveServer) -> dict[str, Any]:
    return {
        "generator": "native",
        "native_model": f"openai:{NATIVE_MODEL}@{reflective_server.base_url}",
        "native_api_key": OPENAI_KEY,
    }


async def ask(services: Services, question: str, workflow: str, **options: Any) -> Answer:
    graph = WORKFLOWS[workflow].build(services)
    answer: Any = await graph.ainvoke({"question": question}, context=Context(**options))
    return Answer(**answer)


async def test_a_language_model_judges_and_grades(
    data_dir: Path, critic_server: CriticServer, by_chat: dict[str, Any]
) -> None:
    critic_server.grades["utility"] = {"5": 1.0}
    critic_server.grades["support"] = {"2": 0.8, "1": 0.2}
    settings = settings_of(data_dir, critic="llm", grader="llm_direct", **by_chat)
    async with open_services(settings) as services:
        assert (services.chat, services.chat_name) == (None, "extractive")
        assert await services.evaluator.ready()
        answer = await ask(services, TALL, "self_crag", retrieve_k=2)
        critic_server.replies = ["What?"] * 30
        unjudged = await ask(services, TALL, "self_crag", retrieval="always", retrieve_k=2)
        asked = f"{TALL} [SEP] It is 87 metres tall."
        told = await services.evaluator.score("support", [(asked, "The tower is 87 metres tall.")])

    assert "87 metres" in answer["answer"]
    assert answer["action"] == "correct"
    assert [each.score for each in answer["documents"]] == [pytest.approx(0.8)] * 2
    (critique,) = answer["critique"]
    assert (critique.support, critique.utility) == (pytest.approx(0.9), pytest.approx(1))
    assert answer["retrieval"] is not None
    assert answer["retrieval"].probability == pytest.approx(0.75)
    assert (answer["stopped_by"], answer["degraded"]) == ("accepted", [])
    assert told.values[0] is not None, "the evaluator judges what the grader does not"
    assert unjudged["answer"]
    failed = {entry.component: entry.reason for entry in unjudged["degraded"]}
    assert failed.keys() == {"critic", "evaluator"}
    assert all("stood in" in reason for reason in failed.values())
    assert "87 metres" in unjudged["answer"]
    plan = unjudged["plan"]
    assert plan is not None
    assert plan.thresholds != services.evaluator.thresholds


async def test_a_self_rag_model_answers_and_judges(
    data_dir: Path, reflective_server: ReflectiveServer, native: dict[str, Any]
) -> None:
    async with open_services(settings_of(data_dir, critic="native", **native)) as services:
        at_start = len(reflective_server.requests)
        answer = await ask(services, "Who says how tall the red tower of Umbra is?", "self_rag")
        calls = len(reflective_server.requests) - at_start
        direct = await ask(services, "Add two and two.", "self_rag")

    assert answer["generator"] == NATIVE_MODEL
    assert answer["retrieval"] is not None
    assert answer["retrieval"].probability == pytest.approx(0.75)
    judgement = answer["candidates"][0].judgement
    assert judgement is not None
    assert (judgement.relevance, judgement.support) == (pytest.approx(0.8), pytest.approx(0.75))
    assert answer["citations"]
    for text in (answer["answer"], *(each.answer for each in answer["candidates"])):
        assert "[Relevant]" not in text
        assert "supported]" not in text
    assert answer["usage"].llm_calls == calls
    assert answer["degraded"] == []

    assert direct["answer"] == "From memory."
    assert direct["usage"].llm_calls == len(reflective_server.requests) - at_start - calls == 1


async def test_a_model_without_the_tokens_is_refused_at_start(
    data_dir: Path, reflective_server: ReflectiveServer, native: dict[str, Any]
) -> None:
    reflective_server.speaks_tokens = False
    with pytest.raises(StartFailed, match="no reflection tokens") as failed:
        async with open_services(settings_of(data_dir, **native)):
            pass
    assert NATIVE_MODEL in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("grader", MODES)
async def test_every_grader_leaves_the_critic_to_the_evaluator(
    tmp_path: Path, critic_server: CriticServer, by_chat: dict[str, Any], grader: str
) -> None:
    settings, evaluator = settings_of(tmp_path, grader=grader, **by_chat), FakeEvaluator()
    chat = chat_model(critic_server.base_url, OPENAI_KEY, MODEL)
    chosen = chosen_grader(settings, chat, evaluator)

    assert chosen.name == f"{MODEL} ({MODES[grader].replace('_', ' ')})"
    assert (await chosen.score("relevance", [("What?", "This.")])).values == (pytest.approx(0.8),)
    assert evaluator.calls == []
    assert chosen_critic(settings, chat, None, evaluator).name == evaluator.name
    assert chosen_grader(settings_of(tmp_path), None, evaluator) is evaluator
    await chat.aclose()
