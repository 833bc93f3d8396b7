"""The fallback model: it writes where the first one fails, and the answer says so."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.composition.services import open_services
from app.llm.chat import chat_model
from app.resilience import retry
from app.settings import Settings
from graphs.generation.answer import NO_LISTENER, generate_answer
from graphs.generation.prompts import DraftRequest
from graphs.types import Strip
from tests import fakes
from tests.app.serving import Serve, Serving
from tests.loopback.openai import MODEL, OPENAI_KEY, Failure, OpenAIServer
from tests.loopback.reflective import NATIVE_MODEL, ReflectiveServer
from tests.umbra import ALWAYS, CHINESE, ENGLISH, FACTS, TOWER, TURM

SECOND = "second-model"


@pytest.fixture
def second_server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def serving(
    serve: Serve,
    openai_server: OpenAIServer,
    second_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Serving:
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.0)
    chat = chat_model(openai_server.base_url, OPENAI_KEY, MODEL, has_fallback=True)
    second = chat_model(second_server.base_url, OPENAI_KEY, MODEL, kind="fallback")
    parts = fakes.services(fakes.FakeRetriever([TOWER, TURM]), chat=chat)
    breakers = chat.endpoint.breaker, second.endpoint.breaker
    circuits = {breaker.name: breaker for breaker in breakers}
    return serve(replace(parts, fallback=second, fallback_name=SECOND, circuits=circuits))


def asked(serving: Serving, question: str, **options: Any) -> dict[str, Any]:
    return serving.ask(question, workflow="crag", options={**ALWAYS, **options})


def test_the_fallback_writes_where_the_model_fails(
    serving: Serving, openai_server: OpenAIServer, second_server: OpenAIServer
) -> None:
    openai_server.status = 500
    answer = asked(serving, CHINESE)

    assert answer["models"]["generator"] == SECOND
    assert FACTS[CHINESE] in answer["answer"]
    assert answer["citations"]
    (entry,) = answer["degraded"]
    assert entry["component"] == "generator"
    assert "HTTP 500" in entry["reason"]
    assert f"The fallback model {SECOND} stood in." in entry["reason"]
    assert answer["usage"]["llm_calls"] == 2
    assert len(second_server.requests) == 1


def test_a_model_that_writes_needs_none(serving: Serving, second_server: OpenAIServer) -> None:
    answer = asked(serving, ENGLISH)
    assert (answer["models"]["generator"], answer["degraded"]) == ("fake-chat", [])
    assert second_server.requests == []


def test_with_an_open_circuit_the_fallback_is_asked_at_once(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    openai_server.status = 503
    for _ in range(3):
        asked(serving, ENGLISH)
    tried = len(openai_server.requests)
    answer = asked(serving, ENGLISH)
    assert len(openai_server.requests) == tried
    assert answer["models"]["generator"] == SECOND
    assert "failed 3 times in a row" in answer["degraded"][0]["reason"]
    assert serving.client.get("/health/ready").json()["degraded"] == ["chat"]
    assert 'selfcrag_circuit_open{dependency="fallback"} 0.0' in serving.client.get("/metrics").text


def test_what_was_heard_is_retracted_first(serving: Serving, openai_server: OpenAIServer) -> None:
    openai_server.failure = "end"
    events = serving.stream(ENGLISH, workflow="crag", options=ALWAYS)
    names = [event.name for event in events if event.name in ("token", "retract", "answer")]
    last = len(names) - names[::-1].index("retract") - 1
    assert "token" in names[:last]
    assert "token" in names[last:]
    heard = ""
    for event in events:
        heard = "" if event.name == "retract" else heard + event.data.get("text", "")
        if event.name == "answer":
            assert event.data["models"]["generator"] == SECOND
            assert event.data["answer"] == heard.removesuffix(event.data.get("text", ""))


def test_a_model_that_is_silent_leaves_the_fallback_its_time(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    openai_server.failure = "hang"
    answer = asked(serving, ENGLISH, deadline_ms=4000)
    assert answer["models"]["generator"] == SECOND
    assert "did not finish within" in answer["degraded"][0]["reason"]
    assert answer["stopped_by"] == "answered"


@pytest.mark.parametrize("failure", ["", "garbage"])
def test_where_both_fail_sentences_are_quoted(
    serving: Serving, openai_server: OpenAIServer, second_server: OpenAIServer, failure: Failure
) -> None:
    openai_server.status = 500
    second_server.failure = failure
    second_server.status = 200 if failure else 404
    answer = asked(serving, ENGLISH)
    assert answer["models"]["generator"] == "extractive"
    assert "87 metres" in answer["answer"]
    first, second = (entry["reason"] for entry in answer["degraded"])
    assert "The chat endpoint" in first
    assert "The fallback endpoint" in second
    assert not any("stood in" in reason for reason in (first, second))


async def test_the_settings_choose_one(
    data_dir: Path, tmp_path: Path, reflective_server: ReflectiveServer, second_server: OpenAIServer
) -> None:
    fixture = tmp_path / "searches.json"
    fixture.write_text("{}", encoding="utf-8")
    settings = Settings(
        _env_file=None,
        data_dir=data_dir,
        search=f"fixture@{fixture}",
        generator="native",
        native_model=f"openai:{NATIVE_MODEL}@{reflective_server.base_url}",
        native_api_key=OPENAI_KEY,
        fallback_model=f"openai:{MODEL}@{second_server.base_url}",
        fallback_api_key=OPENAI_KEY,
    )
    strip = Strip("s1", "d1", "A lighthouse warns ships.", "L", "a.md", "internal", (0, 0))
    request = DraftRequest("What does it do?", [], [strip], floor=0.0, language="en")
    async with open_services(settings) as services:
        assert services.circuits.keys() == {"native", "fallback", "web_search", "pages"}
        first = await generate_answer(request, services, NO_LISTENER)
        reflective_server.status = 404
        second = await generate_answer(request, services, NO_LISTENER)

    assert (first.generator, second.generator) == (NATIVE_MODEL, MODEL)
    assert "A lighthouse warns ships" in second.answer
    assert "stood in" in second.degraded[0].reason
