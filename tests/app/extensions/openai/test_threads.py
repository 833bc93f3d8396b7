"""Keys and threads as OpenAI's client, Open WebUI and the AI SDK meet them."""

import socket
from pathlib import Path
from typing import Any

import openai
import pytest

from tests import fakes
from tests.app.extensions.openai.test_chat import asked, client_of
from tests.app.extensions.openai.test_errors import body_of, request_bytes
from tests.app.keys import key_of
from tests.app.serving import Serve, Serving, wait_until
from tests.app.storage.test_api_keys import settings_of
from tests.umbra import ENGLISH, TOWER

NEXT = "And who built the red tower of Umbra?"
TALL = "It is 87 metres tall [1]."


def chatting(serve: Serve) -> tuple[Serving, fakes.FakeChat]:
    chat = fakes.FakeChat(chunks=[TALL])
    return serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat)), chat


def test_a_key_is_asked_for_as_openai_would(serve: Serve, tmp_path: Path) -> None:
    parts = fakes.services(fakes.FakeRetriever([TOWER]))
    serving = serve(parts, settings_of(tmp_path))
    secret, narrow = key_of(tmp_path, "ann"), key_of(tmp_path, "ann", scopes=("documents",))
    serving.app.state.keys._fresh_s = 0.0
    wait_until(lambda: serving.client.get("/v1/models").status_code == 401, 5)

    with client_of(serving) as client:
        with pytest.raises(openai.AuthenticationError) as unknown:
            client.models.list()
        assert body_of(unknown.value)["code"] == "invalid_api_key"
        assert "Bearer" in unknown.value.response.headers["www-authenticate"]
        with pytest.raises(openai.PermissionDeniedError) as missing:
            client.with_options(api_key=narrow).models.list()
        assert body_of(missing.value)["code"] == "permission_denied"
        reply = client.with_options(api_key=secret).chat.completions.create(
            model="rag", messages=asked(ENGLISH)
        )
        assert reply.choices[0].message.content


def test_the_thread_holds_the_dialogue_where_the_messages_do_not(serve: Serve) -> None:
    serving, chat = chatting(serve)
    with client_of(serving) as client:
        for question in (ENGLISH, NEXT):
            client.chat.completions.create(
                model="crag", messages=asked(question), extra_body={"thread_id": "chat-1"}
            )

    assert "assistant: It is 87 metres tall (1)." in chat.prompt()
    messages = serving.client.get("/threads/chat-1").json()["messages"]
    assert [message["content"] for message in messages] == [ENGLISH, TALL, NEXT, TALL]


def test_a_chat_of_open_webui_is_a_thread_with_its_own_dialogue(serve: Serve) -> None:
    """Its messages count, even where there are none: an answer may be asked for again."""
    serving, chat = chatting(serve)
    headers = {"X-OpenWebUI-Chat-Id": "chat-2"}
    for _ in range(2):
        body = {"model": "crag", "messages": asked(ENGLISH)}
        response = serving.client.post("/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 200

    assert "assistant:" not in chat.prompt()
    assert serving.client.get("/threads/chat-2").status_code == 200


@pytest.mark.parametrize(
    ("trigger", "is_told"), [("submit-message", True), ("regenerate-message", False)]
)
def test_a_chat_of_the_ai_sdk_is_a_thread(serve: Serve, trigger: str, is_told: bool) -> None:
    serving, chat = chatting(serve)
    for question in (ENGLISH, NEXT):
        body: dict[str, Any] = {
            "id": "chat-3",
            "workflow": "crag",
            "trigger": trigger,
            "messages": [{"role": "user", "parts": [{"type": "text", "text": question}]}],
        }
        assert serving.client.post("/ask/ui", json=body).status_code == 200

    assert ("assistant: It is 87 metres tall (1)." in chat.prompt()) == is_told


def test_a_busy_thread_is_a_conflict(slow: Serving) -> None:
    waiting = slow.app.state.services.retriever.waiting
    with socket.create_connection(("127.0.0.1", slow.port)) as connection:
        connection.sendall(request_bytes(thread_id="chat-4", stream=True))
        wait_until(lambda: bool(waiting.at_s), 5)
        with client_of(slow) as client, pytest.raises(openai.ConflictError) as busy:
            client.chat.completions.create(
                model="rag", messages=asked(ENGLISH), extra_body={"thread_id": "chat-4"}
            )

    assert body_of(busy.value)["code"] == "conflict"
    assert int(busy.value.response.headers["retry-after"]) >= 1
