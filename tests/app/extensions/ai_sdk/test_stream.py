"""`POST /ask/ui`: the parts that the AI SDK puts together to a message."""

import json
import socket
from typing import Any

import httpx
import pytest

from tests import fakes
from tests.app.serving import GONE_WITHIN_S, Serve, Serving, wait_until
from tests.umbra import CHINESE, ENGLISH, FIRST, PAGE, SECOND, TOWER, rejecting

Part = dict[str, Any]


def message(text: str, role: str = "user") -> Part:
    return {"id": "m1", "role": role, "parts": [{"type": "text", "text": text}]}


def post(serving: Serving, *messages: Part, **fields: Any) -> httpx.Response:
    """What `useChat` sends."""
    body = {"id": "chat-1", "messages": messages, "trigger": "submit-message", **fields}
    return serving.client.post("/ask/ui", json=body)


def parts_of(response: httpx.Response) -> list[Part]:
    assert response.status_code == 200, response.text
    *lines, last = response.text.strip().split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def put_together(parts: list[Part]) -> list[Part]:
    """The message as the AI SDK builds it: texts by id, data by id, a step cleared by its reset."""
    made: list[Part] = []
    active: dict[str, Part] = {}
    for part in parts:
        kind, _, phase = part["type"].partition("-")
        if kind in ("text", "reasoning") and phase == "start":
            active[part["id"]] = {"type": kind, "text": ""}
            made.append(active[part["id"]])
        elif phase == "delta":
            active[part["id"]]["text"] += part["delta"]
        elif phase == "end":
            del active[part["id"]]
        elif part["type"] == "reset-step":
            made.clear()
            active.clear()
        elif kind in ("source", "data") and not part.get("transient"):
            made.append(part)
    assert not active, "every part ends"
    return made


def texts(made: list[Part], kind: str) -> str:
    (only,) = [part["text"] for part in made if part["type"] == kind]
    return str(only)


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_an_answer_is_one_message(service: Serving, question: str) -> None:
    chat = f"chat-{question.isascii()}"
    response = post(service, message(question), id=chat)
    parts = parts_of(response)
    made = put_together(parts)
    answer = service.ask(question)

    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-accel-buffering"] == "no"
    assert [part["type"] for part in parts[:2]] == ["start", "start-step"]
    assert [part["type"] for part in parts[-2:]] == ["finish-step", "finish"]
    assert parts[0]["messageMetadata"]["thread_id"] == chat
    assert texts(made, "text") == answer["answer"]
    assert ("知识库" in texts(made, "reasoning")) == (question == CHINESE)
    assert [p["data"] for p in made if p["type"] == "data-citation"] == answer["citations"]
    named = {p["filename"] for p in made if p["type"] == "source-document"}
    assert named == {citation["source"] for citation in answer["citations"]}
    assert parts[-1]["finishReason"] == "stop"
    assert parts[-1]["messageMetadata"]["stopped_by"] == answer["stopped_by"]


def test_drafts_are_data_unless_asked_for_otherwise(serve: Serve) -> None:
    """No part takes anything back, which clients but those of AI SDK 7 could not read."""
    draft = "It is tall, as all agree who have ever stood before it and looked up. " * 2 + "[1]"
    parts = parts_of(post(serve(rejecting(first=draft)), message(ENGLISH)))
    drafts = [part for part in parts if part["type"] == "data-draft"]
    states = [(part["id"], part["data"]["state"]) for part in drafts]

    assert not any(part["type"] == "reset-step" for part in parts)
    assert drafts[0]["data"]["text"] in draft
    assert draft.startswith(drafts[0]["data"]["text"])
    at = states.index(("draft-0", "withdrawn"))
    assert drafts[at - 1]["data"] == {"round": 0, "state": "writing", "text": draft}
    assert drafts[at]["data"] == {
        "round": 0,
        "state": "withdrawn",
        "text": "",
        "reason": "Say how tall.",
    }
    assert states[-1] == ("draft-1", "accepted")
    assert not drafts[-1]["data"]["text"], "the text is a part of its own now"
    assert [p["delta"] for p in parts if p["type"] == "text-delta"] == [SECOND]
    steps = [part for part in parts if part["type"] == "data-step"]
    assert all(step["transient"] for step in steps), "steps are not kept"
    assert {"grade", "critique", "revise"} <= {step["data"]["step"] for step in steps}
    (answer,) = [part["data"] for part in parts if part["type"] == "data-answer"]
    assert answer["answer"] == SECOND


def test_a_rejected_draft_is_taken_back(serve: Serve) -> None:
    parts = parts_of(post(serve(rejecting()), message(ENGLISH), drafts="reset"))
    kinds = [part["type"] for part in parts]
    before = "".join(
        p["delta"] for p in parts[: kinds.index("reset-step")] if p["type"] == "text-delta"
    )

    assert before == FIRST
    made = put_together(parts)
    assert texts(made, "text") == SECOND
    lines = texts(made, "reasoning").splitlines()
    assert lines.count("Drafting the answer …") == 1
    assert lines.index("The draft is withdrawn.") > lines.index("Criticism: Say how tall.")
    (retracted,) = [p for p in parts if p["type"] == "data-retract"]
    assert retracted == {
        "type": "data-retract",
        "data": {"round": 0, "reason": "Say how tall."},
        "transient": True,
    }


def test_older_clients_get_the_answer_alone(serve: Serve) -> None:
    parts = parts_of(post(serve(rejecting()), message(ENGLISH), drafts=False))

    assert "reset-step" not in {part["type"] for part in parts}
    assert [p["delta"] for p in parts if p["type"] == "text-delta"] == [SECOND]
    assert "The draft is withdrawn." in texts(put_together(parts), "reasoning")


def test_a_page_is_a_source_url(serve: Serve) -> None:
    parts = fakes.services(
        fakes.FakeRetriever([TOWER]),
        chat=fakes.ScriptedChat(answers=["It was repaired [1]."]),
        web_search=fakes.FakeWebSearch([PAGE]),
    )
    options = {"ablation": {"only_action": "incorrect"}}
    response = post(serve(parts), message(ENGLISH), workflow="crag", options=options)
    (source,) = [p for p in parts_of(response) if p["type"] == "source-url"]

    assert source == {
        "type": "source-url",
        "sourceId": PAGE.url,
        "url": PAGE.url,
        "title": PAGE.title,
    }


def test_the_dialogue_before_is_handed_on(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))
    before = message("A red tower [1].", "assistant")
    before["parts"] += [{"type": "step-start"}, {"type": "data-citation", "data": {}}]
    post(serving, message("What stands in Umbra?"), before, message(ENGLISH), workflow="crag")

    assert "assistant: A red tower (1)." in chat.prompt()


@pytest.mark.parametrize(
    ("messages", "fields", "pointer"),
    [
        ([], {}, "#/messages"),
        ([message("Hello", "assistant")], {}, "#/messages"),
        ([message(" ")], {}, "#/messages/0/parts"),
        ([{"role": "user", "parts": [{"type": "file", "url": "x"}]}], {}, "#/messages/0/parts"),
        ([message(ENGLISH)], {"workflow": "none"}, "#/workflow"),
        ([message(ENGLISH)], {"options": {"upper": "high"}}, "#/options/upper"),
        ([message(ENGLISH)], {"id": "a b"}, "#/id"),
    ],
)
def test_a_wrong_request_is_a_problem(
    service: Serving, messages: list[Part], fields: Part, pointer: str
) -> None:
    response = post(service, *messages, **fields)

    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


def test_nothing_is_left_to_resume(service: Serving) -> None:
    """The AI SDK reads 204 as that; anything else that is no stream is an error to it."""
    response = service.client.get("/ask/ui/chat-1/stream")
    assert (response.status_code, response.content) == (204, b"")


def test_a_failure_is_an_error_part(serve: Serve) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=fakes.BrokenEvaluator()))
    parts = parts_of(post(serving, message(ENGLISH), workflow="crag"))

    assert parts[-1]["type"] == "error"
    assert "Quote run" in parts[-1]["errorText"]


def test_a_run_ends_when_its_client_leaves(slow: Serving) -> None:
    waiting = slow.app.state.services.retriever.waiting
    body = json.dumps({"messages": [message(ENGLISH)], "workflow": "rag"}).encode()
    head = (
        "POST /ask/ui HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", slow.port)) as connection:
        connection.sendall(head.encode() + body)
        wait_until(lambda: bool(waiting.at_s), 5)
    wait_until(lambda: slow.runs_under_way() == 0, GONE_WITHIN_S)
    assert len(waiting.left_s) == 1
