"""Runs that are kept: listed, looked at, followed again, cancelled, judged, compared."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.runs import replay
from app.schemas.runs import RunSummary
from app.settings import Settings
from tests import fakes
from tests.app.serving import GONE_WITHIN_S, Serve, Serving, wait_until
from tests.app.slow import SlowChat, SlowEvaluator, Waiting
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM

UNKNOWN = "0" * 32


@pytest.fixture
def kept(tmp_path: Path) -> Settings:
    """State that outlives a service, for others to open."""
    return Settings(_env_file=None, data_dir=tmp_path)


@pytest.fixture
def quick(serve: Serve) -> Serving:
    return serve(fakes.services(fakes.FakeRetriever([TOWER, TURM])))


def slow_answer(waiting: Waiting) -> Any:
    chat = SlowChat(chunks=["The tower ", "is tall [1]."], waiting=waiting)
    return fakes.services(fakes.FakeRetriever([TOWER]), chat=chat)


def stream_text(serving: Serving, run_id: str, **headers: str) -> str:
    return serving.client.get(f"/runs/{run_id}/events", headers=headers).text


def test_a_run_is_kept_whole(quick: Serving) -> None:
    sent = quick.stream(ENGLISH, workflow="crag", options={"upper": 0.4, "lower": -0.4})
    answer = sent[-2].data
    told = quick.client.get(f"/runs/{answer['run_id']}").json()

    assert told["status"] == "done"
    assert told["answer"] == answer
    assert told["request"]["question"] == told["question"] == ENGLISH
    assert told["request"]["options"] == {"upper": 0.4, "lower": -0.4}
    assert told["thresholds"] == answer["thresholds"]
    assert told["stopped_by"] == answer["stopped_by"]
    assert [(e["number"], e["name"], e["data"]) for e in told["events"]] == [
        (event.number, event.name, event.data) for event in sent
    ]
    assert [e["at_ms"] for e in told["events"]] == sorted(e["at_ms"] for e in told["events"])
    assert told["created_at"] < told["ended_at"]


def test_runs_are_listed_newest_first(quick: Serving) -> None:
    asked = [quick.ask(question)["run_id"] for question in (ENGLISH, CHINESE, "And the gate?")]
    page = quick.client.get("/runs", params={"limit": 2}).json()
    rest = quick.client.get("/runs", params={"limit": 2, "offset": 2}).json()

    assert page["total"] == rest["total"] == 3
    assert [run["run_id"] for run in page["runs"] + rest["runs"]] == asked[::-1]
    assert rest["runs"][0]["answer"] == "The red tower of Umbra is 87 metres tall [1]."


def test_a_long_list_holds_nobody_up(quick: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole answers are read for it: in a thread, beside the requests of others."""
    whole, on_loop = replay.summary, list[bool]()

    def summary(*told: Any) -> RunSummary:
        on_loop.append(asyncio._get_running_loop() is not None)
        return whole(*told)

    monkeypatch.setattr(replay, "summary", summary)
    for question in (ENGLISH, CHINESE):
        quick.ask(question)
    assert quick.client.get("/runs").json()["total"] == 2
    assert on_loop == [False, False]


def test_a_run_that_is_not_there_is_404(quick: Serving) -> None:
    for method, path in [
        ("GET", f"/runs/{UNKNOWN}"),
        ("GET", f"/runs/{UNKNOWN}/events"),
        ("POST", f"/runs/{UNKNOWN}/cancel"),
        ("GET", f"/runs/{UNKNOWN}/diff/{UNKNOWN}"),
        ("GET", "/threads/nobody"),
        ("DELETE", "/threads/nobody"),
    ]:
        response = quick.client.request(method, path)
        assert response.status_code == 404, path
        assert response.headers["content-type"] == "application/problem+json"


def test_a_stream_cut_anywhere_goes_on_where_it_was_cut(quick: Serving) -> None:
    """At every byte: what was read whole, and what follows it, make the uncut stream."""
    body = {"question": CHINESE, "stream": True, "workflow": "rag"}
    whole = quick.client.post("/ask", json=body).content
    run_id = json.loads(whole.split(b"data: ")[1].split(b"\n")[0])["run_id"]
    events = whole.decode().split("\n\n")[:-1]
    following = {
        number: stream_text(quick, run_id, **{"Last-Event-ID": str(number)})
        for number in range(len(events))
    }
    following[-1] = stream_text(quick, run_id)

    assert whole.count(b"\n\n") == len(events) > 5
    for cut in range(len(whole) + 1):
        read = whole[:cut].rpartition(b"\n\n")[0]
        got = read + b"\n\n" if read else b""
        last = got.count(b"\n\n") - 1
        assert got + following[last].encode() == whole, cut


def test_nothing_follows_the_end(quick: Serving) -> None:
    run_id = quick.ask(ENGLISH)["run_id"]
    response = quick.client.get(f"/runs/{run_id}/events", params={"after": 10_000})
    assert response.status_code == 204


def test_a_run_under_way_is_followed_to_its_end(serve: Serve, kept: Settings) -> None:
    """By others, at the service it runs in and at another one, from its first event on."""
    waiting = Waiting(0.5)
    parts = slow_answer(waiting)
    first, second = serve(parts, kept), serve(parts, kept)
    with first.following(ENGLISH, workflow="crag") as live, ThreadPoolExecutor(1) as pool:
        run_id = next(live).data["run_id"]
        here = pool.submit(httpx.get, f"{first.url}/runs/{run_id}/events", timeout=10)
        wait_until(lambda: bool(waiting.at_s), 5)
        wait_until(lambda: _is_known(second, run_id), 5)
        assert second.client.get(f"/runs/{run_id}").json()["status"] == "running"
        there = stream_text(second, run_id)
        rest = list(live)
    assert here.result().text == there
    assert there.count("\n\n") == 1 + len(rest)


def _is_known(serving: Serving, run_id: str) -> bool:
    return serving.client.get(f"/runs/{run_id}").status_code == 200


def test_a_cancelled_run_tells_its_best_answer(serve: Serve) -> None:
    waiting = Waiting()
    serving = serve(slow_answer(waiting))
    with serving.following(ENGLISH, workflow="crag") as live:
        run_id = next(live).data["run_id"]
        wait_until(lambda: bool(waiting.at_s), 5)
        told = serving.client.post(f"/runs/{run_id}/cancel")
        asked_at = time.perf_counter()
        rest = list(live)

    assert told.status_code == 202
    assert told.json() == {"run_id": run_id, "status": "running"}
    assert waiting.left_s[0] - asked_at < GONE_WITHIN_S
    assert [event.name for event in rest[-2:]] == ["answer", "done"]
    assert rest[-2].data["stopped_by"] == "cancelled"
    assert rest[-2].data["answer"] == "The red tower of Umbra is 87 metres tall [1]."
    wait_until(lambda: serving.runs_under_way() == 0, GONE_WITHIN_S)
    run = serving.client.get(f"/runs/{run_id}").json()
    assert (run["status"], run["stopped_by"]) == ("cancelled", "cancelled")


def test_one_cancelled_before_it_knew_anything_says_so(serve: Serve) -> None:
    waiting = Waiting()
    slow = SlowEvaluator(waiting=waiting)
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER, TURM]), evaluator=slow))
    with serving.following(CHINESE) as live:
        run_id = next(live).data["run_id"]
        wait_until(lambda: bool(waiting.at_s), 5)
        serving.client.post(f"/runs/{run_id}/cancel")
        answer = next(event for event in live if event.name == "answer").data
    assert answer["answer"].startswith("本次运行在找到答案之前被取消了")
    assert answer["stopped_by"] == "cancelled"


def test_feedback_is_kept_with_its_run(quick: Serving) -> None:
    run_id = quick.ask(ENGLISH)["run_id"]
    said = {"score": -0.5, "comment": "Too short.", "corrected_answer": "It is 87 metres tall."}
    response = quick.client.post(f"/runs/{run_id}/feedback", json=said)

    assert response.status_code == 201
    kept = response.json()
    assert {name: kept[name] for name in said} == said
    assert quick.client.get(f"/runs/{run_id}").json()["feedback"] == [kept]


def test_feedback_is_checked(quick: Serving) -> None:
    run_id = quick.ask(ENGLISH)["run_id"]
    bodies: list[dict[str, Any]] = [
        {}, {"score": 1.5}, {"score": "1"}, {"score": True}, {"score": 1, "stars": 5},
        {"score": 1, "comment": "\x00"}, {"score": 1, "corrected_answer": "x" * 8001},
    ]  # fmt: skip
    for body in bodies:
        response = quick.client.post(f"/runs/{run_id}/feedback", json=body)
        assert response.status_code == 422, body
    assert quick.client.get(f"/runs/{run_id}").json()["feedback"] == []


def test_two_runs_are_compared(quick: Serving) -> None:
    first = quick.ask(ENGLISH, workflow="crag")
    second = quick.ask(ENGLISH, workflow="crag", options={"upper": 0.99, "lower": -0.5})
    diff = quick.client.get(f"/runs/{first['run_id']}/diff/{second['run_id']}").json()

    changed = {change["name"]: (change["before"], change["after"]) for change in diff["request"]}
    assert changed["options.upper"] == (None, 0.99)
    assert changed["thresholds.upper"] == (first["thresholds"]["upper"], 0.99)
    assert "question" not in changed
    assert diff["runs"] == [first["run_id"], second["run_id"]]
    assert {change["name"] for change in diff["took_ms"]} >= {"retrieve", "grade", "generate"}
