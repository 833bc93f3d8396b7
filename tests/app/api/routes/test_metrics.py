"""GET /metrics: what runs and requests come to, without a word of any user."""

from typing import get_args

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.observability.metrics import ServiceMetrics
from app.schemas.ask import DoneEvent, ErrorEvent, Problem, RunEvent, StepEvent
from graphs.types import Component, Degraded
from tests import fakes
from tests.app.serving import Serve, Serving, wait_until
from tests.app.slow import SlowWebSearch

QUESTION = "How tall is the red tower?"


def samples(serving: Serving) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """(name, labels) -> value of every series."""
    response = serving.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def value(serving: Serving, name: str, **labels: str) -> float:
    """The series of exactly these labels; 0 where there is none yet."""
    return samples(serving).get((f"selfcrag_{name}", frozenset(labels.items())), 0.0)


@pytest.fixture
def serving(serve: Serve) -> Serving:
    return serve(fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is tall.")])))


def test_a_run_is_counted_with_its_steps_and_costs(serving: Serving) -> None:
    """And not a word of its user is told."""
    thread = "thread-of-someone"
    answer = serving.ask(QUESTION, workflow="crag", thread_id=thread)
    run = {"workflow": "crag", "action": answer["action"], "stopped_by": answer["stopped_by"]}

    assert value(serving, "runs_total", **run) == 1
    verdict = {"workflow": "crag", "verdict": answer["verdict"]}
    assert value(serving, "verdicts_total", **verdict) == 1
    assert value(serving, "run_seconds_count", workflow="crag") == 1
    assert value(serving, "first_token_seconds_count", workflow="crag") == 1
    for step in ("retrieve", "grade", "generate"):
        assert value(serving, "step_seconds_count", step=step) == 1, step
    told_s = answer["timings_ms"]["grade"] / 1000
    assert value(serving, "step_seconds_sum", step="grade") == pytest.approx(told_s)
    for name, spent in answer["usage"].items():
        assert value(serving, f"{name}_total") == spent, name
    assert value(serving, "runs_in_progress") == 0
    text = serving.client.get("/metrics").text
    for secret in (thread, answer["run_id"], "tower", "127.0.0.1"):
        assert secret not in text


def test_a_stream_and_a_workflow_without_an_action_are_counted(serving: Serving) -> None:
    """The time of a stream is that until it began."""
    serving.stream(QUESTION, workflow="rag")
    run = {"workflow": "rag", "action": "none", "stopped_by": "answered"}
    assert value(serving, "runs_total", **run) == 1
    assert value(serving, "http_request_seconds_count", route="/ask") == 1


def test_a_part_that_failed_is_counted_once_a_run(serve: Serve) -> None:
    search = fakes.FakeWebSearch(degraded=[Degraded("fetch", "gone"), Degraded("fetch", "slow")])
    serving = serve(fakes.services(fakes.FakeRetriever(), web_search=search))
    answer = serving.ask(QUESTION, workflow="crag")

    assert {entry["component"] for entry in answer["degraded"]} == {"fetch"}
    assert value(serving, "degraded_total", component="fetch") == 1


def test_every_part_has_its_series_before_it_fails() -> None:
    registry = ServiceMetrics().registry
    for component in get_args(Component):
        labels = {"component": component}
        assert registry.get_sample_value("selfcrag_degraded_total", labels) == 0


def test_a_run_under_way_shows_and_one_left_is_not_lost(serve: Serve) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever(), web_search=SlowWebSearch()))
    with serving.following(QUESTION, workflow="crag") as live:
        next(live)
        with httpx.Client(base_url=serving.url, trust_env=False) as other:
            assert "selfcrag_runs_in_progress 1.0" in other.get("/metrics").text
    wait_until(lambda: value(serving, "runs_in_progress") == 0, 5)
    ended = [
        (dict(labels)["stopped_by"], count)
        for (name, labels), count in samples(serving).items()
        if name == "selfcrag_runs_total"
    ]
    assert ended == [("cancelled", 1)]


def test_a_failed_run_is_counted_as_one() -> None:
    metrics = ServiceMetrics()
    problem = Problem(title="Internal error", status=500, detail="It failed.")
    for event in (
        RunEvent(run_id="a", thread_id="t", workflow="crag"),
        ErrorEvent(problem=problem),
        DoneEvent(),
    ):
        metrics.observe("a", event)
    labels = {"workflow": "crag", "action": "none", "stopped_by": "failed"}
    assert metrics.registry.get_sample_value("selfcrag_runs_total", labels) == 1


def test_nothing_is_kept_of_runs_that_ended_or_never_began() -> None:
    metrics = ServiceMetrics()
    for n in range(1000):
        metrics.observe(str(n), RunEvent(run_id=str(n), thread_id="t", workflow="crag"))
        metrics.observe(str(n), DoneEvent())
        late = StepEvent(step="x", path=["x"], phase="end", at_ms=1, took_ms=1, detail={})
        metrics.observe(str(n), late)
    assert metrics._under_way == {}
    assert metrics.registry.get_sample_value("selfcrag_step_seconds_count", {"step": "x"}) is None


def test_requests_are_counted_by_route_never_by_path(serving: Serving) -> None:
    client = serving.client
    client.get("/health/live")
    client.post("/ask", json={"question": ""})
    for n in range(50):
        client.get(f"/nowhere/{n}")
    client.request("PROPFIND", "/ask")
    client.get("/workflows", headers={"Host": "evil.example"})

    def count(method: str, route: str, status: int) -> float:
        labels = {"method": method, "route": route, "status": str(status)}
        return value(serving, "http_requests_total", **labels)

    assert count("GET", "/health/live", 200) == 1
    assert count("POST", "/ask", 422) == 1
    assert count("GET", "unmatched", 404) == 50
    assert count("GET", "unmatched", 403) == 1, "refused before it was routed"
    assert count("other", "/ask", 405) == 1
    routes = {dict(labels).get("route") for _, labels in samples(serving)} - {None}
    assert routes <= {"/ask", "/health/live", "/metrics", "unmatched"}


def test_the_knowledge_base_is_measured(service: Serving) -> None:
    assert value(service, "documents") > 0
    assert value(service, "chunks") >= value(service, "documents")
