"""The stream on the wire: its framing, its order, and that it is told while things happen."""

import json
import re
from dataclasses import replace

import pytest

from app.api.sse import encoded, followed, never_silent
from app.schemas.ask import StepEvent, TokenEvent
from tests import fakes
from tests.app.crag_runs import begun, runs_of
from tests.app.serving import Sent, Serve, Serving, shown
from tests.app.slow import SlowChat, SlowEvaluator, Waiting
from tests.umbra import CHINESE, ENGLISH, TOWER

BLOCK = re.compile(r"event: ([a-z]+)\ndata: ([^\n]+)\nid: (\d+)\n(?:retry: \d+\n)?\n")
PER_RUN = ("run_id", "thread_id", "timings_ms")


def names(events: list[Sent]) -> list[str]:
    return [event.name for event in events]


def test_the_bytes_are_blocks_of_three_lines(service: Serving) -> None:
    response = service.client.post("/ask", json={"question": CHINESE, "stream": True})

    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in response.headers, "streams are not compressed"
    assert response.text.count("\nid: 0\nretry: 3000\n\n") == 1, "when to come back, once"
    text = response.text.replace("\nretry: 3000", "")
    blocks = BLOCK.findall(text)
    assert "".join(f"event: {n}\ndata: {d}\nid: {i}\n\n" for n, d, i in blocks) == text
    assert [int(number) for _, _, number in blocks] == list(range(len(blocks)))
    assert blocks[0][0] == "run"
    assert blocks[-2][0] == "answer"
    assert blocks[-1][:2] == ("done", "{}")
    assert "红塔高八十七米" in text, "Chinese is sent as it is"
    assert "\\u" not in text


def test_the_accept_header_asks_for_a_stream(service: Serving) -> None:
    accept = {"Accept": "text/event-stream"}
    streamed = service.client.post("/ask", json={"question": ENGLISH}, headers=accept)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    any_type = {"Accept": "*/*"}
    plain = service.client.post("/ask", json={"question": ENGLISH}, headers=any_type)
    assert plain.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("workflow", "question"), [("rag", ENGLISH), ("crag", CHINESE)])
def test_the_stream_ends_with_the_json_answer(
    service: Serving, question: str, workflow: str
) -> None:
    events = service.stream(question, workflow=workflow)
    plain = service.ask(question, workflow=workflow)
    streamed = events[-2].data

    assert list(streamed) == list(plain)
    assert set(streamed["timings_ms"]) == set(plain["timings_ms"])
    assert {k: v for k, v in streamed.items() if k not in PER_RUN} == {
        k: v for k, v in plain.items() if k not in PER_RUN
    }
    assert shown(events) == plain["answer"]
    assert {event.data["round"] for event in events if event.name == "token"} == {0}
    run = events[0].data
    assert run == {name: streamed[name] for name in ("run_id", "thread_id", "workflow")}


def test_steps_come_in_order_with_their_times_and_details(service: Serving) -> None:
    events = service.stream(ENGLISH, workflow="crag")
    told = [event.data for event in events if event.name == "step"]

    assert [step["path"] for step in told if step["phase"] == "end"] == [
        *(["prepare"], ["decide_retrieval"], ["retrieve", "search"], ["retrieve"]),
        *(["grade"], ["refine"], ["generate"]),
    ]
    assert [step["path"] for step in told if step["phase"] == "start"][2:4] == [
        *(["retrieve"], ["retrieve", "search"]),
    ]
    assert [step["at_ms"] for step in told] == sorted(step["at_ms"] for step in told)
    starts = [step for step in told if step["phase"] == "start"]
    ends = [step for step in told if step["phase"] == "end"]
    assert all(set(s) == {"step", "path", "phase", "at_ms", "detail"} for s in starts)
    assert all("took_ms" in step for step in ends)
    assert {step["step"]: step["took_ms"] for step in ends} == events[-2].data["timings_ms"]

    answer = events[-2].data
    details = {step["step"]: step["detail"] for step in ends}
    assert {doc["id"] for doc in details["retrieve"]["documents"]} == {
        doc["id"] for doc in answer["documents"]
    }
    assert details["grade"]["action"] == "correct"
    assert details["grade"]["documents"] == answer["documents"]
    assert details["grade"]["thresholds"] == answer["thresholds"]
    assert details["refine"]["strips"] == answer["strips"]
    assert details["generate"]["answer"] == answer["answer"]


def test_a_step_is_told_while_it_runs(serve: Serve) -> None:
    slow = SlowEvaluator(waiting=Waiting(0.4))
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=slow))
    events = serving.stream(ENGLISH, workflow="crag")
    seen = {
        (event.data["step"], event.data["phase"]): event.at_s
        for event in events
        if event.name == "step"
    }

    assert seen["grade", "start"] < slow.waiting.at_s[0] + 0.3
    assert seen["grade", "end"] - seen["grade", "start"] > 0.3
    assert seen["retrieve", "end"] < slow.waiting.at_s[0] + 0.3


def test_tokens_come_one_by_one(serve: Serve) -> None:
    chat = SlowChat(chunks=["The tower ", "is tall [1]."], waiting=Waiting(0.4))
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))
    events = serving.stream(ENGLISH, workflow="crag")
    tokens = [event for event in events if event.name == "token"]

    assert len(tokens) >= 2
    assert tokens[-1].at_s - tokens[0].at_s > 0.3
    assert shown(events) == events[-2].data["answer"] == "The tower is tall [1]."


async def test_tokens_that_come_together_are_one_event() -> None:
    chunks = ["The ", *(f"{word}塔 " for word in range(200)), "is tall [1]."]
    parts = fakes.services(fakes.FakeRetriever([TOWER]), chat=fakes.FakeChat(chunks=chunks))
    run = await begun(runs_of(parts))
    told = await run.all_events()
    tokens = [event for event in told if isinstance(event, TokenEvent)]

    assert tokens[0].text.startswith("The")
    assert 2 <= len(tokens) < 100
    assert "".join(token.text for token in tokens) == "".join(chunks)
    places = [n for n, event in enumerate(told) if isinstance(event, TokenEvent)]
    assert places == list(range(places[0], places[-1] + 1))
    following = told[places[-1] + 1]
    assert isinstance(following, StepEvent)
    assert (following.step, following.phase) == ("generate", "end"), "no token comes late"


def test_nothing_is_retracted_where_nothing_was_streamed(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=["The tower"], fails_after=0)
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))
    events = serving.stream(ENGLISH, workflow="crag")

    assert "retract" not in names(events)
    assert shown(events) == events[-2].data["answer"]


def test_line_separators_do_not_split_a_data_line(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=["one\u2028two\u2029three\x85four\r\nfive\rsix [1]."])
    services = fakes.services(fakes.FakeRetriever([TOWER]), chat=chat)
    serving = serve(replace(services, answer_links="all"))
    body = {"question": ENGLISH, "stream": True, "workflow": "crag"}
    response = serving.client.post("/ask", json=body)
    answer = next(json.loads(d) for n, d, _ in BLOCK.findall(response.text) if n == "answer")

    assert not set("\u2028\u2029\x85\r") & set(response.text)
    assert answer["answer"] == "one\u2028two\u2029three\x85four\r\nfive\rsix [1]."


def test_half_characters_of_a_chat_endpoint_break_nothing(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=["Tall \ud83d", "\ude00 [1]."])
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))
    events = serving.stream(ENGLISH, workflow="crag")
    asked = serving.ask(ENGLISH, workflow="crag")

    assert events[-1].name == "done"
    assert events[-2].data["answer"] == asked["answer"] == "Tall 😀 [1]."


def test_an_event_is_one_data_line() -> None:
    block = encoded(3, TokenEvent(round=0, text="a\n\nevent: done\ndata: {}\n\n"))
    assert block.count("\n") == 4
    assert block.startswith("event: token\ndata: {")
    assert block.endswith("\nid: 3\n\n")


async def test_silence_is_filled_with_comments() -> None:
    slow = SlowEvaluator(waiting=Waiting(0.3))
    parts = fakes.services(fakes.FakeRetriever([TOWER]), evaluator=slow)
    run = await begun(runs_of(parts))
    text = "".join([sent async for sent in never_silent(followed(run), 0.05)])
    blocks = [f"{block}\n\n" for block in text.removesuffix("\n\n").split("\n\n")]

    assert blocks.count(": \n\n") >= 3
    assert all(block == ": \n\n" or BLOCK.fullmatch(block) for block in blocks)
    assert blocks[-1].startswith("event: done")


async def test_a_run_can_be_followed_again_and_from_the_middle() -> None:
    """What has come already is sent at once."""
    run = await begun(runs_of(fakes.services(fakes.FakeRetriever([TOWER]))))
    first = [item async for item in run.follow()]

    assert [item async for item in run.follow()] == first
    assert [item async for item in run.follow(4)] == first[4:]
    assert [event for _, event in first] == list(await run.all_events())
    assert [batch async for batch in run.follow_together(2)] == [first[2:]]
    assert [sent async for sent in followed(run)] == [
        "".join(encoded(number, event) for number, event in first)
    ]
