"""What Open WebUI gets beyond OpenAI's form, and that nobody else gets it."""

import json
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.extensions.openai.chat import Chunks
from app.extensions.openai.open_webui import WebUIChunks, thread_of
from app.protocols.addresses import Addresses
from app.schemas.ask import AnswerEvent, AskResponse
from graphs.options import Context
from graphs.types import Citation
from tests import fakes
from tests.app.extensions.openai.test_chat import asked
from tests.app.extensions.openai.test_errors import request_bytes
from tests.app.serving import Serve, Serving, wait_until
from tests.umbra import ENGLISH, FIRST, SECOND, TOWER, rejecting

HEADERS = {"X-OpenWebUI-User-Id": "u1", "X-OpenWebUI-Chat-Id": "0a1b-2c3d"}
TITLE = """### Task:
Generate a concise title.
### Output:
JSON format: {"title": "your concise title here"}
### Chat History:
<chat_history>
USER: How tall is the red tower of Umbra?
ASSISTANT: It is 87 metres tall [1].
</chat_history>"""


def lines_of(serving: Serving, headers: dict[str, str], **fields: Any) -> list[dict[str, Any]]:
    """The data lines of a streamed completion, the last one left out."""
    body = {"model": "self_crag", "messages": asked(ENGLISH), "stream": True, **fields}
    response = serving.client.post("/v1/chat/completions", json=body, headers=headers)
    assert response.status_code == 200, response.text
    *lines, last = [line for line in response.text.split("\n\n") if line.startswith("data: ")]
    assert last == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def shown(lines: list[dict[str, Any]]) -> list[str]:
    """What Open WebUI's page shows, after each line that changes it.

    Events add to it or replace it; content is added up apart and then takes its place.
    """
    states, page, content = [], "", ""
    for line in lines:
        event = line.get("event", {})
        if event.get("type") == "message":
            page += event["data"]["content"]
        elif event.get("type") == "replace":
            page = event["data"]["content"]
        elif line.get("choices") and (piece := line["choices"][0]["delta"].get("content")):
            content += piece
            page = content
        else:
            continue
        states.append(page)
    return states


def test_drafts_are_taken_back_and_steps_are_statuses(serve: Serve) -> None:
    lines = lines_of(serve(rejecting()), HEADERS)
    states = shown(lines)
    events = [line["event"] for line in lines if "event" in line]
    statuses = [event["data"] for event in events if event["type"] == "status"]
    (source,) = [event["data"] for event in events if event["type"] == "source"]

    assert FIRST in states
    assert states[states.index(FIRST) + 1] == ""
    assert states[-1] == SECOND
    assert statuses[0]["description"].startswith("Retrieval")
    assert [status["done"] for status in statuses] == [False] * (len(statuses) - 1) + [True]
    assert source["source"] == {"id": "docs/en/page.md", "name": "docs/en/page.md"}
    assert source["document"] == [TOWER.text]
    assert len(source["metadata"]) == 1
    deltas = [line["choices"][0]["delta"] for line in lines if line.get("choices")]
    assert not any({"reasoning_content", "annotations"} & set(delta) for delta in deltas)


def test_others_get_no_line_without_choices(serve: Serve) -> None:
    lines = lines_of(serve(rejecting()), {"X-Forwarded-For": "127.0.0.1"})
    assert all(line["choices"] for line in lines)


def cited(n: int, source: str, web: bool = False) -> Citation:
    return Citation(
        n=n,
        strip_id=f"s{n}",
        origin="web" if web else "internal",
        title=f"Title {n}",
        source=source,
        text=f"Text {n}.",
        score=0.5,
        spans=((0, 5),),
    )


def test_markers_count_sources(serve: Serve) -> None:
    """Open WebUI takes `[2]` for the second source, whatever number the passage had."""
    answer = AskResponse.model_validate(
        serve(fakes.services(fakes.FakeRetriever([TOWER]))).ask(ENGLISH, workflow="rag")
    )
    response = answer.model_copy(
        update={
            "answer": "One [1]. Two [3]. Three [4][7]. [99]",
            "citations": [
                cited(1, "a.md"),
                cited(3, "https://example.org", web=True),
                cited(4, "a.md"),
                replace(cited(7, "b.md"), strip_id="0123456789abcdef-01234567-12..14#3"),
            ],
        }
    )

    class Told:
        id, workflow, request = "r1", "rag", SimpleNamespace(context=Context())

    chunks: Chunks = WebUIChunks(Told(), ENGLISH, False, Addresses("http://here/"))
    text = chunks(0, AnswerEvent(response=response))
    lines = [json.loads(line[6:]) for line in text.strip().split("\n\n")]
    sources = [x["event"]["data"] for x in lines if x.get("event", {}).get("type") == "source"]

    assert [source["source"]["id"] for source in sources] == ["a.md", "https://example.org", "b.md"]
    assert sources[0]["document"] == ["Text 1.", "Text 4."]
    assert sources[1]["source"]["name"] == "Title 3"
    assert "url" not in sources[0]["source"]
    assert sources[2]["source"]["url"] == "http://here/#document=0123456789abcdef-01234567-12..14"
    assert shown(lines) == ["One [1]. Two [2]. Three [1][3]. [99]"]


@pytest.mark.parametrize(
    ("told", "thread"),
    [
        ({"x-openwebui-chat-id": "0a1b"}, "0a1b"),
        ({"x-openwebui-chat-id": "local:7"}, "local:7"),
        ({"x-openwebui-chat-id": "{{CHAT_ID}}"}, None),
        ({"x-openwebui-chat-id": ""}, None),
        ({}, None),
    ],
)
def test_the_chat_is_the_thread(told: dict[str, str], thread: str | None) -> None:
    assert thread_of(told) == thread


@pytest.mark.parametrize("stream", [False, True])
def test_titles_and_tags_are_refused_and_not_asked_as_questions(serve: Serve, stream: bool) -> None:
    retriever = fakes.FakeRetriever([TOWER])
    serving = serve(fakes.services(retriever))
    body = {"model": "self_crag", "messages": asked(TITLE), "stream": stream}
    reply = serving.client.post("/v1/chat/completions", json=body, headers=HEADERS)

    assert reply.status_code == 400
    assert "task model" in reply.json()["error"]["message"]
    assert retriever.asked == []


def test_two_models_are_asked_in_one_chat_at_once(slow: Serving) -> None:
    waiting = slow.app.state.services.retriever.waiting
    headers = {"X-OpenWebUI-Chat-Id": "chat-9"}
    head = request_bytes(stream=True).replace(
        b"Host: localhost", b"Host: localhost\r\nX-OpenWebUI-Chat-Id: chat-9"
    )
    with socket.create_connection(("127.0.0.1", slow.port)) as connection:
        connection.sendall(head)
        wait_until(lambda: bool(waiting.at_s), 5)
        waiting.seconds = 0
        body = {"model": "crag", "messages": asked(ENGLISH)}
        beside = slow.client.post("/v1/chat/completions", json=body, headers=headers)
        named = {**body, "thread_id": "chat-9"}
        refused = slow.client.post("/v1/chat/completions", json=named, headers=headers)

    assert "87" in beside.json()["choices"][0]["message"]["content"]
    assert refused.status_code == 409
