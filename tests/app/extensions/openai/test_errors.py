"""What OpenAI's client raises when the service refuses or fails."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import openai
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from app.settings import Settings
from tests import fakes
from tests.app.extensions.openai.test_chat import asked, client_of
from tests.app.serving import GONE_WITHIN_S, Serve, Serving, app_of, wait_until
from tests.app.slow import SlowRetriever, Waiting
from tests.umbra import CHINESE, ENGLISH, TOWER


@pytest.fixture(scope="module")
def fake() -> Iterator[Serving]:
    with Serving(app_of(fakes.services(fakes.FakeRetriever([TOWER])))) as serving:
        yield serving


@pytest.fixture(scope="module")
def client(fake: Serving) -> Iterator[openai.OpenAI]:
    with client_of(fake) as client:
        yield client


def body_of(error: openai.APIStatusError) -> dict[str, Any]:
    """The value of `error`, which must tell nothing of our code."""
    assert ".py" not in error.response.text
    body: dict[str, Any] = error.response.json()["error"]
    assert body.keys() == {"message", "type", "param", "code"}
    assert body["message"]
    return body


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="gpt-4", messages=asked(ENGLISH))
    body = body_of(raised.value)

    assert (body["code"], body["param"]) == ("model_not_found", "model")
    assert "self_crag" in body["message"]
    with pytest.raises(openai.NotFoundError, match="gpt-4"):
        client.models.retrieve("gpt-4")


def test_a_second_answer_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="n must be 1"):
        client.chat.completions.create(model="rag", messages=asked(ENGLISH), n=2)


IMAGE = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "Be brief."}]}, "messages"),
        ({"messages": asked("  ")}, "messages.0.content"),
        ({"messages": asked("x" * 8001)}, "messages.0.content"),
        ({"messages": asked("bell \x07")}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content.str"),
        ({"messages": asked(ENGLISH), "stream": "yes"}, "stream"),
        ({"messages": asked(ENGLISH), "options": {"retrieve_k": 0}}, "options.retrieve_k"),
        ({"messages": asked(ENGLISH), "options": {"upper": -1, "lower": 1}}, "options.lower"),
        ({"messages": asked(ENGLISH), "options": {"colour": 1}}, "options.colour"),
        ({"messages": asked(ENGLISH), "thread_id": "a b"}, "thread_id"),
        ({"messages": asked(ENGLISH), "metadata": {"options": "{"}}, "metadata.options"),
        ({"messages": asked(CHINESE), "metadata": {"options": "[" * 9000}}, "metadata.options"),
        ({"messages": asked(ENGLISH), "metadata": {"options": "9" * 9000}}, "metadata.options"),
        (
            {"messages": asked(ENGLISH), "metadata": {"options": '{"web": 1}'}},
            "metadata.options.web",
        ),
        (
            {"messages": asked(ENGLISH), "metadata": {"thread_id": "a b"}},
            "metadata.thread_id",
        ),
    ],
)
def test_a_wrong_request_names_its_field(
    client: openai.OpenAI, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as raised:
        client.post("/chat/completions", body={"model": "rag", **fields}, cast_to=object)
    body = body_of(raised.value)

    assert body["param"] == param
    assert body["type"] == "invalid_request_error"


def test_images_are_refused_by_name(client: openai.OpenAI) -> None:
    body = {"model": "rag", "messages": [*asked("Hi"), {"role": "user", "content": IMAGE}]}
    with pytest.raises(openai.UnprocessableEntityError, match="image_url") as raised:
        client.post("/chat/completions", body=body, cast_to=object)
    assert body_of(raised.value)["param"] == "messages.1.content"


def test_a_large_body_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as raised:
        client.chat.completions.create(model="rag", messages=asked("红" * 350_000))

    assert raised.value.status_code == 413
    assert body_of(raised.value)["code"] == "request_too_large"


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b"null"])
def test_what_is_no_json_is_refused(fake: Serving, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = fake.client.post("/v1/chat/completions", content=body, headers=headers)

    assert response.status_code == 422
    assert response.json()["error"]["code"] == "invalid_request"
    assert response.json()["error"]["param"] is None


def test_what_may_be_left_out_may_be_null(client: openai.OpenAI) -> None:
    refusal = {"role": "assistant", "content": [{"type": "refusal", "text": None}]}
    messages = [*asked("Hi"), refusal, *asked(ENGLISH)]
    body = {"model": "rag", "messages": messages, "stream_options": {"include_usage": None}}
    reply = client.post("/chat/completions", body=body, cast_to=object)
    assert "87" in reply["choices"][0]["message"]["content"]  # type: ignore[index]


@pytest.mark.parametrize(
    "kind", ["\ud800", "\x00\u2028", "图" * 3000], ids=["half", "control", "long"]
)
def test_a_part_of_any_type_is_refused(fake: Serving, kind: str) -> None:
    parts = [{"type": kind}]
    bodies = {
        "/v1/chat/completions": {"model": "rag", "messages": [{"role": "user", "content": parts}]},
        "/ask/ui": {"messages": [{"role": "user", "parts": parts}]},
    }
    for path, body in bodies.items():
        headers = {"Content-Type": "application/json"}
        response = fake.client.post(path, content=json.dumps(body).encode(), headers=headers)
        assert response.status_code == 422
        assert len(response.text) < 500


def test_the_form_is_the_same_below_a_prefix() -> None:
    app = app_of(fakes.services(fakes.FakeRetriever([TOWER])))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with app.router.lifespan_context(app):
            yield

    outer = Starlette(routes=[Mount("/x", app)], lifespan=lifespan)
    with TestClient(outer, base_url="http://127.0.0.1") as client:
        empty = client.post("/x/v1/chat/completions", json={"model": "rag", "messages": []})
        assert empty.json()["error"]["param"] == "messages"
        assert client.get("/x/v1").json()["error"]["code"] == "not_found"
        assert "error" not in client.get("/x/v10").json()


def test_a_path_or_method_that_is_not_there(fake: Serving) -> None:
    for response, status in (
        (fake.client.post("/v1/files", json={}), 404),
        (fake.client.get("/v1/chat/completions"), 405),
    ):
        assert response.status_code == status
        assert response.json()["error"]["type"] == "invalid_request_error"
    elsewhere = fake.client.get("/nowhere")
    assert elsewhere.headers["content-type"] == "application/problem+json"


def test_too_many_runs_tell_when_to_come_back(serve: Serve) -> None:
    waiting = Waiting()
    parts = fakes.services(SlowRetriever([TOWER], waiting=waiting))
    serving = serve(parts, Settings(_env_file=None, max_runs=1, queue_wait_s=0))
    with socket.create_connection(("127.0.0.1", serving.port)) as connection:
        connection.sendall(request_bytes(stream=True))
        wait_until(lambda: bool(waiting.at_s), 5)
        with client_of(serving) as client, pytest.raises(openai.InternalServerError) as raised:
            client.chat.completions.create(model="rag", messages=asked(ENGLISH))

    assert raised.value.status_code == 503
    assert int(raised.value.response.headers["retry-after"]) >= 1
    assert body_of(raised.value)["code"] == "service_unavailable"


def test_a_fault_of_ours_is_told_without_details(serve: Serve) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=fakes.BrokenEvaluator()))
    with client_of(serving) as client:
        with pytest.raises(openai.InternalServerError) as raised:
            client.chat.completions.create(model="crag", messages=asked(CHINESE))
        assert body_of(raised.value)["code"] == "internal_error"
        with (
            pytest.raises(openai.APIError, match="Quote run") as streamed,
            client.chat.completions.create(
                model="crag", messages=asked(CHINESE), stream=True
            ) as stream,
        ):
            list(stream)
    assert not isinstance(streamed.value, openai.APIStatusError), "the status was 200 by then"


def test_a_fault_before_the_run_is_told_in_the_same_form(serve: Serve) -> None:
    parts = fakes.services(fakes.FakeRetriever([TOWER]))
    serving = serve(replace(parts, evaluator=None))  # type: ignore[arg-type]
    response = serving.client.post(
        "/v1/chat/completions", json={"model": "rag", "messages": asked(ENGLISH)}
    )
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert "Traceback" not in response.text


def request_bytes(**fields: Any) -> bytes:
    body = json.dumps({"model": "rag", "messages": asked(ENGLISH), **fields}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_ends_when_its_client_leaves(slow: Serving, stream: bool) -> None:
    waiting = slow.app.state.services.retriever.waiting
    with socket.create_connection(("127.0.0.1", slow.port)) as connection:
        connection.sendall(request_bytes(stream=stream))
        wait_until(lambda: bool(waiting.at_s), 5)
    wait_until(lambda: slow.runs_under_way() == 0, GONE_WITHIN_S)
    assert len(waiting.left_s) == 1
