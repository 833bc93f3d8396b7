"""Dependencies that hang or are down: answered in time all the same, and then left in peace."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.composition.services import WorkerEvaluator
from app.llm.chat import chat_model
from app.resilience import retry
from app.resilience.circuit_breaker import PROBE_S, CircuitBreaker
from evaluator.client import EvaluatorClient
from graphs.grading.actions import PAPER_THRESHOLDS
from graphs.ports import Services
from tests import fakes
from tests.app.serving import Serve, Serving, wait_until
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.loopback.server import free_port
from tests.umbra import ALWAYS, ENGLISH, FACTS, TOWER, TURM

OPEN_S = 3.0
DEADLINE_MS = 4000


def asked(serving: Serving, question: str, **options: Any) -> tuple[dict[str, Any], float]:
    """The answer and the seconds it took."""
    started = time.perf_counter()
    options = {**ALWAYS, "deadline_ms": DEADLINE_MS, **options}
    answer = serving.ask(question, workflow="crag", options=options)
    return answer, time.perf_counter() - started


def asked_at_once(
    serving: Serving, times: int, **options: Any
) -> list[tuple[dict[str, Any], float]]:
    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(lambda _: asked(serving, ENGLISH, **options), range(times)))


def reason(answer: dict[str, Any], component: str) -> str:
    """Why it went on without this one, and no other."""
    (entry,) = answer["degraded"]
    assert entry["component"] == component
    told: str = entry["reason"]
    return told


def circuit(serving: Serving, dependency: str) -> float:
    series = f'selfcrag_circuit_open{{dependency="{dependency}"}} '
    lines = serving.client.get("/metrics").text.splitlines()
    return next(float(line.removeprefix(series)) for line in lines if line.startswith(series))


@pytest.fixture
def serving(serve: Serve, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Over a chat endpoint whose breaker is open for OPEN_S."""
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.0)
    breaker = CircuitBreaker("chat", open_s=OPEN_S)
    chat = chat_model(openai_server.base_url, OPENAI_KEY, MODEL, breaker=breaker)
    parts = fakes.services(fakes.FakeRetriever([TOWER, TURM]), chat=chat)
    return serve(replace(parts, circuits={breaker.name: breaker}))


@pytest.mark.slow
def test_a_model_that_hangs_is_asked_three_times_then_let_be(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    openai_server.failure = "hang"
    for answer, took_s in asked_at_once(serving, 3):
        assert took_s < DEADLINE_MS / 1000
        assert "did not finish" in reason(answer, "generator")
        assert (answer["stopped_by"], answer["models"]["generator"]) == ("answered", "extractive")
        assert FACTS[ENGLISH] in answer["answer"]
        assert answer["citations"]

    answer, took_s = asked(serving, ENGLISH)
    assert took_s < 1
    assert "failed 3 times in a row and is asked again in" in reason(answer, "generator")
    assert FACTS[ENGLISH] in answer["answer"]
    assert len(openai_server.requests) == 3
    assert circuit(serving, "chat") == 1

    wait_until(lambda: circuit(serving, "chat") == 0.5, 2 * OPEN_S)
    answer, took_s = asked(serving, ENGLISH, deadline_ms=30_000)
    assert took_s < PROBE_S + 1
    assert "is being probed" in reason(answer, "generator")
    assert FACTS[ENGLISH] in answer["answer"]
    openai_server.failure = ""
    wait_until(lambda: circuit(serving, "chat") == 1, 30)
    wait_until(lambda: circuit(serving, "chat") == 0.5, 2 * OPEN_S)
    answer, _ = asked(serving, ENGLISH)
    assert (answer["degraded"], answer["models"]["generator"]) == ([], "fake-chat")
    assert len(openai_server.requests) == 5
    assert circuit(serving, "chat") == 0


def test_a_call_that_ends_with_its_run_is_counted_and_closed(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    openai_server.says, openai_server.token_delay_s = "Tall. " * 500, 0.05
    with serving.following(ENGLISH, workflow="crag", options=ALWAYS) as live:
        run_id = next(live).data["run_id"]
        wait_until(lambda: len(openai_server.requests) > 0, 20)
        serving.client.post(f"/runs/{run_id}/cancel")
        answer = list(live)[-2].data
    wait_until(lambda: openai_server.abandoned == 1, 2)
    assert answer["stopped_by"] == "cancelled"
    assert answer["usage"]["llm_calls"] == len(openai_server.requests) == 1


def test_what_is_written_at_the_deadline_is_the_answer(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    openai_server.says = " ".join(f"It has {n} stairs [1]." for n in range(500))
    openai_server.token_delay_s = 0.05
    answer, took_s = asked(serving, ENGLISH, deadline_ms=2500)
    assert took_s < 2.5 + 1
    assert answer["answer"].startswith("It has 0 stairs [1]. It has 1 stairs [1].")
    assert answer["answer"].endswith(" stairs [1].")
    assert answer["models"]["generator"] == "fake-chat"
    assert "cut off at the run's deadline" in reason(answer, "generator")
    wait_until(lambda: openai_server.abandoned == 1, 2)


def test_calls_of_one_run_share_the_openings_of_their_prompts(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    """A server keeps what it has computed of them (prefix caching)."""
    openai_server.says = "It may be 12 metres tall [1]."
    options = {**ALWAYS, "reflect": True, "max_critic": 1, "min_support": 1.0, "min_utility": 5.0}
    serving.ask(ENGLISH, workflow="crag", options=options)
    written, revised = openai_server.prompts[-2:]
    assert revised.startswith(written)


def test_runs_that_wait_for_the_model_hold_no_place(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    serving.app.state.runs.admission.places = 1
    openai_server.together = 4
    answers = asked_at_once(serving, 6, deadline_ms=30_000)
    assert [answer["degraded"] for answer, _ in answers] == [[]] * 6
    assert openai_server.most_at_once >= 4


@pytest.mark.slow
def test_runs_without_patience_do_not_keep_others_from_the_model(
    serving: Serving, openai_server: OpenAIServer
) -> None:
    openai_server.delay_s = 0.8
    for _ in range(4):
        answer, took_s = asked(serving, ENGLISH, deadline_ms=600)
        assert took_s < 0.6
        assert reason(answer, "generator")
    assert circuit(serving, "chat") == 0
    assert asked(serving, ENGLISH, deadline_ms=10_000)[0]["degraded"] == []


@pytest.mark.slow
def test_a_model_that_is_writing_is_not_down(serving: Serving, openai_server: OpenAIServer) -> None:
    openai_server.token_delay_s = 0.8
    for answer, _ in asked_at_once(serving, 3):
        assert "did not finish" in reason(answer, "generator")
    assert circuit(serving, "chat") == 0


@pytest.mark.parametrize(("status", "opens"), [(500, True), (429, True), (400, False)])
def test_which_replies_of_a_model_count(
    serving: Serving, openai_server: OpenAIServer, status: int, opens: bool
) -> None:
    openai_server.status = status
    for _ in range(4):
        answer, _ = asked(serving, ENGLISH)
        assert FACTS[ENGLISH] in answer["answer"]
    assert circuit(serving, "chat") == opens
    # Three answers that failed with all their retries, as far as there were any saved.
    assert len(openai_server.requests) == (3 + retry.MAX_SAVED if opens else 4)


def test_a_client_that_leaves_does_not_count(serving: Serving, openai_server: OpenAIServer) -> None:
    openai_server.failure = "hang"
    for n in range(1, 4):
        with serving.following(ENGLISH, workflow="crag", options=ALWAYS):
            wait_until(lambda n=n: len(openai_server.requests) == n, 5)
        wait_until(lambda: serving.runs_under_way() == 0, 5)
    assert circuit(serving, "chat") == 0


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def with_worker(url: str) -> Services:
    worker = EvaluatorClient(httpx.AsyncClient(base_url=url, timeout=30, trust_env=False))
    breaker = CircuitBreaker("evaluator")
    evaluator = WorkerEvaluator(worker, "far", PAPER_THRESHOLDS["popqa"], breaker=breaker)
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    parts = fakes.services(fakes.FakeRetriever([TOWER, TURM]), chat=chat)
    return replace(parts, evaluator=evaluator, circuits={breaker.name: breaker})


def test_a_worker_that_hangs_ends_no_run(serve: Serve, silent: str) -> None:
    serving = serve(with_worker(silent))
    answer, took_s = asked(serving, ENGLISH, ablation={})

    assert took_s < DEADLINE_MS / 1000
    assert "all that the run's deadline left" in reason(answer, "evaluator")
    assert (answer["stopped_by"], answer["answer"]) == ("answered", "Tall [1].")
    assert circuit(serving, "evaluator") == 0


def test_a_worker_that_is_down_is_let_be(serve: Serve) -> None:
    serving = serve(with_worker(f"http://127.0.0.1:{free_port()}"))
    for _ in range(3):
        answer, _ = asked(serving, ENGLISH, ablation={}, deadline_ms=10_000)
        assert "Is the worker running?" in reason(answer, "evaluator")
    answer, _ = asked(serving, ENGLISH, ablation={})
    assert "failed 3 times in a row and is asked again in" in reason(answer, "evaluator")
    assert circuit(serving, "evaluator") == 1
