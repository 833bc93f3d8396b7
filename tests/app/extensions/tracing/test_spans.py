"""Spans of runs as a collector gets them over OTLP."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from app.errors import StartFailed
from app.extension import load_extensions, settings_of
from app.llm.chat import chat_model
from app.main import create_app
from app.settings import Settings, unknown_settings
from graphs.ports import Services
from tests import fakes
from tests.app.serving import Serving
from tests.loopback.fixtures import Started
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.loopback.otlp import Collector, attributes_of
from tests.loopback.server import free_port

QUESTION = "How tall is the red tower of Umbra?"
TOWER = fakes.passage("The red tower of Umbra is 87 metres tall.", 1)
ALWAYS = {"retrieval": "always", "ablation": {"only_action": "correct"}}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector(started: Started, monkeypatch: pytest.MonkeyPatch) -> Collector:
    collector = started.fresh(Collector)
    monkeypatch.setenv("SELFCRAG_OTLP_ENDPOINT", collector.url)
    return collector


def serving_with(model: OpenAIServer, data_dir: Path) -> Serving:
    @asynccontextmanager
    async def source(_: Settings) -> AsyncIterator[Services]:
        chat = chat_model(model.base_url, OPENAI_KEY, MODEL)
        yield fakes.services(fakes.FakeRetriever([TOWER]), chat=chat)
        await chat.aclose()

    settings = Settings(_env_file=None, data_dir=data_dir)
    return Serving(create_app(settings, source))


@pytest.fixture
def serving(collector: Collector, openai_server: OpenAIServer, tmp_path: Path) -> Iterator[Serving]:
    with serving_with(openai_server, tmp_path) as serving:
        yield serving


def asked(serving: Serving, **headers: str) -> dict[str, Any]:
    """The answer; the service has ended then, and all of its spans are exported."""
    body = {"question": QUESTION, "workflow": "self_crag", "options": ALWAYS}
    answer: dict[str, Any] = serving.client.post("/ask", json=body, headers=headers).json()
    serving.stop()
    return answer


def children_of(span: Span, spans: list[Span]) -> list[Span]:
    return [each for each in spans if each.parent_span_id == span.span_id]


def named(name: str, spans: list[Span]) -> Span:
    (span,) = [each for each in spans if each.name == name]
    return span


def test_a_run_has_its_steps_and_its_calls(
    serving: Serving, collector: Collector, openai_server: OpenAIServer
) -> None:
    answer = asked(serving)
    run = named("invoke_agent self_crag", collector.spans)
    told = attributes_of(run)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert told["gen_ai.agent.name"] == "self_crag"
    assert told["gen_ai.conversation.id"] == answer["thread_id"]
    assert told["selfcrag.run_id"] == answer["run_id"]
    assert told["selfcrag.stopped_by"] == answer["stopped_by"]
    assert told["selfcrag.verdict"] == answer["verdict"]
    assert told["gen_ai.usage.input_tokens"] == answer["usage"]["input_tokens"] > 0
    assert run.parent_span_id == b""

    steps = {span.name: span for span in children_of(run, collector.spans)}
    assert {"prepare", "retrieve", "grade", "reflect"} <= steps.keys()
    inner = {span.name for span in children_of(steps["retrieve"], collector.spans)}
    assert "search" in inner

    calls = [span for span in collector.spans if span.name == f"chat {MODEL}"]
    assert len(calls) == len(openai_server.requests) == answer["usage"]["llm_calls"]
    by_id = {span.span_id: span for span in collector.spans}
    assert {by_id[call.parent_span_id].name for call in calls} <= {"draft", "revise"}
    used = [attributes_of(call) for call in calls]
    assert all(each["gen_ai.request.model"] == MODEL for each in used)
    assert all(each["gen_ai.operation.name"] == "chat" for each in used)
    assert all(each["server.port"] == openai_server.port for each in used)
    for name in ("input_tokens", "output_tokens"):
        total = sum(each[f"gen_ai.usage.{name}"] for each in used)
        assert total == answer["usage"][name]

    assert {span.trace_id for span in collector.spans} == {run.trace_id}
    for span in collector.spans:
        assert run.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= run.end_time_unix_nano
    assert collector.resource["service.name"] == "self-crag"


def test_no_text_leaves_the_service(serving: Serving, collector: Collector) -> None:
    answer = asked(serving)
    assert "87 metres" in answer["answer"]
    assert collector.spans
    for text in ("tower", "Umbra", "87 metres", "Page 1"):
        assert text.encode() not in collector.sent


@pytest.mark.parametrize("flags", ["01", "00"])
def test_a_run_joins_the_trace_of_its_request(
    serving: Serving, collector: Collector, flags: str
) -> None:
    asked(serving, traceparent=f"00-{TRACE}-{PARENT}-{flags}")
    assert {span.trace_id.hex() for span in collector.spans} == (
        {TRACE} if flags == "01" else set()
    )
    if flags == "01":
        run = named("invoke_agent self_crag", collector.spans)
        assert run.parent_span_id.hex() == PARENT


def test_a_call_that_fails_is_marked(
    serving: Serving, collector: Collector, openai_server: OpenAIServer
) -> None:
    openai_server.status = 500
    asked(serving)
    call = next(span for span in collector.spans if span.name == f"chat {MODEL}")
    assert call.status.code == Status.STATUS_CODE_ERROR
    told = attributes_of(call)
    assert (told["error.type"], told["http.request.resend_count"]) == ("500", 2)
    run = named("invoke_agent self_crag", collector.spans)
    assert attributes_of(run)["selfcrag.degraded"] == ["generator"]
    assert run.status.code == Status.STATUS_CODE_UNSET


@pytest.mark.slow
def test_a_collector_that_is_down_holds_nothing_up(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFCRAG_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with serving_with(openai_server, tmp_path) as serving:
        assert serving.ask(QUESTION, workflow="crag", options=ALWAYS)["answer"]
        assert serving.stop() < 15


def test_nothing_is_exported_by_default(openai_server: OpenAIServer, tmp_path: Path) -> None:
    with serving_with(openai_server, tmp_path) as serving:
        assert serving.ask(QUESTION, workflow="crag", options=ALWAYS)["answer"]


def test_an_endpoint_without_the_extra_is_an_error_at_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "app.extensions.tracing.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.setenv("SELFCRAG_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    with pytest.raises(StartFailed, match=r"SELFCRAG_OTLP_ENDPOINT needs the extra otel"):
        create_app(Settings(_env_file=None))


def test_an_endpoint_that_is_none_is_an_error_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFCRAG_OTLP_ENDPOINT", "localhost:4318")
    with pytest.raises(StartFailed, match="must begin with http"):
        create_app(Settings(_env_file=None))


def test_the_endpoint_is_no_setting_where_tracing_is_off(
    clean_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFCRAG_OTLP_ENDPOINT", "localhost:4318")
    create_app(Settings(_env_file=None, extensions_off=("tracing",)))
    off = settings_of(load_extensions(["tracing"]))
    assert unknown_settings(off) == ["unknown setting SELFCRAG_OTLP_ENDPOINT ignored"]
    assert unknown_settings(settings_of(load_extensions())) == []
