"""Runs that end before their answer: the client leaves, the deadline comes, the service stops."""

import json
import logging
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from app.settings import Settings
from graphs.ports import Services
from tests import fakes
from tests.app.serving import GONE_WITHIN_S, Serve, Serving, events_of, wait_until
from tests.app.slow import SlowChat, SlowEvaluator, SlowRetriever, SlowWebSearch, Waiting
from tests.umbra import CHINESE, ENGLISH, PAGE, TOWER, TURM

# Long enough, on a busy machine as well, for all that comes before the part that waits.
DEADLINE_MS = 1500

log = logging.getLogger(__name__)


def parts_that_wait(which: str, waiting: Waiting) -> Services:
    """Everything quick but one part."""
    known = fakes.FakeRetriever([TOWER, TURM])
    match which:
        case "retriever":
            return fakes.services(SlowRetriever([TOWER], waiting=waiting))
        case "evaluator":
            return fakes.services(known, evaluator=SlowEvaluator(waiting=waiting))
        case "web search":
            return fakes.services(known, web_search=SlowWebSearch([PAGE], waiting=waiting))
        case "answer":
            chat = SlowChat(chunks=["The tower ", "is tall [1]."], waiting=waiting)
            return fakes.services(known, chat=chat)
        case _:
            chat = SlowChat(chunks=["Tall [1]."], keywords="tower", waiting=waiting)
            return fakes.services(known, chat=chat, web_search=fakes.FakeWebSearch([PAGE]))


# The action that leads to the part that waits.
ACTION = {"web search": "incorrect", "rewriting": "ambiguous"}
# What the deadline names as waited for.
WAITED_FOR = {
    "retriever": ("retriever", "the knowledge base was searched"),
    "evaluator": ("evaluator", "the passages were graded"),
    "web search": ("web_search", "the web was searched"),
    "answer": ("generator", "a draft was written"),
    "rewriting": ("generator", "the search query was written"),
}


def waited_for(which: str) -> dict[str, str]:
    component, doing = WAITED_FOR[which]
    return {"component": component, "reason": f"The deadline came while {doing}."}


def options_for(which: str) -> dict[str, Any]:
    return {"ablation": {"only_action": ACTION.get(which, "correct")}, "retrieval": "always"}


def request_bytes(**fields: Any) -> bytes:
    body = json.dumps({"question": ENGLISH, **fields}).encode()
    head = (
        "POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def left_after_ms(serving: Serving, waiting: Waiting, **fields: Any) -> float:
    """Asks, leaves as soon as the part waits, and tells how long its call then went on."""
    with socket.create_connection(("127.0.0.1", serving.port)) as connection:
        connection.sendall(request_bytes(**fields))
        wait_until(lambda: bool(waiting.at_s), 5)
        left_at = time.perf_counter()
    wait_until(lambda: bool(waiting.left_s), GONE_WITHIN_S)
    wait_until(lambda: serving.runs_under_way() == 0, GONE_WITHIN_S)
    return (waiting.left_s[0] - left_at) * 1000


@pytest.mark.parametrize(
    ("which", "stream"),
    [
        *(("retriever", False), ("retriever", True), ("evaluator", False)),
        *(("web search", True), ("answer", True), ("rewriting", False)),
    ],
)
def test_a_run_ends_when_its_client_leaves(serve: Serve, which: str, stream: bool) -> None:
    waiting = Waiting()
    serving = serve(parts_that_wait(which, waiting))
    took_ms = left_after_ms(serving, waiting, stream=stream, options=options_for(which))

    log.info("%s let go after %.1f ms", which, took_ms)
    assert took_ms < GONE_WITHIN_S * 1000


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_at_once_leaves_no_run(serve: Serve, stream: bool) -> None:
    waiting = Waiting()
    serving = serve(parts_that_wait("retriever", waiting), Settings(_env_file=None, max_runs=100))
    for pause_s in (0, 0, 0, 0.001, 0.001, 0.002, 0.003, 0.005, 0.01):
        with socket.create_connection(("127.0.0.1", serving.port)) as connection:
            connection.sendall(request_bytes(stream=stream))
            time.sleep(pause_s)
    assert serving.client.get("/health/live").status_code == 200
    wait_until(lambda: serving.runs_under_way() == 0, GONE_WITHIN_S)
    assert len(waiting.left_s) == len(waiting.at_s)


@pytest.mark.parametrize("stream", [False, True])
def test_a_detached_run_goes_on(serve: Serve, stream: bool) -> None:
    waiting = Waiting(0.3)
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    parts = fakes.services(
        fakes.FakeRetriever([TOWER]), evaluator=SlowEvaluator(waiting=waiting), chat=chat
    )
    serving = serve(parts)
    with socket.create_connection(("127.0.0.1", serving.port)) as connection:
        connection.sendall(request_bytes(stream=stream, detach=True))
        wait_until(lambda: bool(waiting.at_s), 5)
    wait_until(lambda: bool(chat.asked), 5)
    wait_until(lambda: serving.runs_under_way() == 0, 5)
    assert waiting.left_s == []
    (run,) = serving.client.get("/runs").json()["runs"]
    assert (run["status"], run["answer"]) == ("done", "Tall.")


def test_a_detached_run_still_ends_at_its_deadline(serve: Serve) -> None:
    waiting = Waiting()
    serving = serve(parts_that_wait("evaluator", waiting))
    with socket.create_connection(("127.0.0.1", serving.port)) as connection:
        connection.sendall(request_bytes(detach=True, options={"deadline_ms": 300}))
        wait_until(lambda: bool(waiting.at_s), 5)
    wait_until(lambda: serving.runs_under_way() == 0, 5)
    assert 0.2 < waiting.left_s[0] - waiting.at_s[0] < 1.5


@pytest.mark.parametrize("which", ["retriever", "evaluator", "web search", "rewriting"])
def test_the_deadline_ends_a_run_with_an_answer(serve: Serve, which: str) -> None:
    waiting = Waiting()
    serving = serve(parts_that_wait(which, waiting))
    started = time.perf_counter()
    answer = serving.ask(ENGLISH, options={**options_for(which), "deadline_ms": DEADLINE_MS})
    took_s = time.perf_counter() - started

    assert answer["stopped_by"] == "deadline"
    assert answer["answer"].isascii()
    assert answer["degraded"] == [waited_for(which)]
    assert DEADLINE_MS / 1000 - 0.01 < took_s < DEADLINE_MS / 1000 + GONE_WITHIN_S
    assert len(waiting.left_s) == 1, "nothing goes on behind the answer"
    assert serving.runs_under_way() == 0


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_the_deadline_is_told_in_the_questions_language(serve: Serve, question: str) -> None:
    serving = serve(parts_that_wait("retriever", Waiting()))
    answer = serving.ask(question, options={"deadline_ms": 150})

    assert ("\u4e00" <= answer["answer"][0] <= "\u9fff") == (question == CHINESE)
    assert answer["citations"] == answer["documents"] == answer["strips"] == []
    assert answer["action"] is None


def test_what_was_kept_by_the_deadline_is_quoted(serve: Serve) -> None:
    waiting = Waiting()
    serving = serve(parts_that_wait("answer", waiting))
    events = serving.stream(ENGLISH, options={**options_for("answer"), "deadline_ms": DEADLINE_MS})
    answer = events[-2].data
    told = [event.name for event in events]

    assert answer["stopped_by"] == "deadline"
    assert answer["degraded"] == [waited_for("answer")]
    assert len(waiting.left_s) == 1, "nothing goes on behind the answer"
    assert "87 metres" in answer["answer"]
    assert answer["citations"][0]["strip_id"] in {strip["id"] for strip in answer["strips"]}
    assert answer["models"]["generator"] == "extractive"
    # The draft that began is void, what is quoted stands instead.
    assert told[-5:] == ["token", "retract", "token", "answer", "done"]
    assert events[-4].data == {"round": 0, "reason": "deadline"}
    assert events[-3].data["text"] == answer["answer"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "fact", "compress"),
    [(ENGLISH, "87 metres", "none"), (CHINESE, "八十七米", "abstractive")],
)
def test_by_the_deadline_passages_that_nothing_grades_are_quoted(
    serve: Serve, question: str, fact: str, compress: str
) -> None:
    serving = serve(parts_that_wait("answer", Waiting()))
    options = {"deadline_ms": DEADLINE_MS, "compress": compress}
    answer = serving.ask(question, workflow="rag", options=options)

    assert answer["stopped_by"] == "deadline"
    assert fact in answer["answer"]
    strips = {strip["id"] for strip in answer["strips"] if strip["kept"]}
    assert {citation["strip_id"] for citation in answer["citations"]} <= strips != set()


@pytest.mark.slow
def test_passages_that_are_still_to_be_graded_are_not_quoted(serve: Serve) -> None:
    serving = serve(parts_that_wait("evaluator", Waiting()))
    answer = serving.ask(ENGLISH, workflow="crag", options={"deadline_ms": DEADLINE_MS})

    assert (answer["stopped_by"], answer["citations"]) == ("deadline", [])
    assert answer["documents"] != []


def test_too_many_runs_are_turned_away(serve: Serve) -> None:
    waiting = Waiting()
    settings = Settings(_env_file=None, max_runs=2, queue_wait_s=0.2)
    serving = serve(parts_that_wait("evaluator", waiting), settings)
    connections = [socket.create_connection(("127.0.0.1", serving.port)) for _ in range(2)]
    for connection in connections:
        connection.sendall(request_bytes())
    wait_until(lambda: len(waiting.at_s) == 2, 5)
    for fields in ({}, {"stream": True}):
        response = serving.client.post("/ask", json={"question": ENGLISH, **fields})
        assert response.status_code == 503
        assert response.headers["content-type"] == "application/problem+json"
        assert int(response.headers["retry-after"]) > 0
    for connection in connections:
        connection.close()
    wait_until(lambda: serving.runs_under_way() == 0, GONE_WITHIN_S)
    deadline = {"deadline_ms": 100}
    assert serving.client.post("/ask", json={"question": ENGLISH, "options": deadline}).is_success


def test_a_stopped_service_gives_the_best_answer_so_far(serve: Serve) -> None:
    waiting = Waiting()
    serving = serve(parts_that_wait("evaluator", waiting))
    told: dict[bool, Any] = {}

    def ask(stream: bool) -> None:
        body = {"question": ENGLISH, "stream": stream}
        with httpx.stream("POST", f"{serving.url}/ask", json=body, timeout=20) as response:
            events = list(events_of(response)) if stream else json.loads(response.read())
            told[stream] = response.status_code, events

    threads = [threading.Thread(target=ask, args=(stream,)) for stream in (False, True)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(waiting.at_s) == 2, 5)
    took_s = serving.stop()
    for thread in threads:
        thread.join()

    assert took_s < 5
    assert len(waiting.left_s) == 2
    status, answer = told[False]
    assert (status, answer["stopped_by"], bool(answer["answer"])) == (200, "cancelled", True)
    assert [event.name for event in told[True][1][-2:]] == ["answer", "done"]


def test_a_run_that_ends_in_the_grace_is_answered(serve: Serve) -> None:
    waiting = Waiting(0.15)
    slow = SlowEvaluator(waiting=waiting)
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=slow))
    told: list[dict[str, Any]] = []

    def ask() -> None:
        body = {"question": ENGLISH, "workflow": "rag"}
        told.append(httpx.post(f"{serving.url}/ask", json=body, timeout=20).json())

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: bool(waiting.at_s), 5)
    serving.server.runs_end_within_s = 5.0
    serving.stop()
    thread.join()
    assert told[0]["stopped_by"] == "answered"
