"""`/v1/responses` asked by OpenAI's own Python client over real HTTP."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from app.settings import Settings
from tests import fakes
from tests.app.extensions.openai.test_chat import client_of
from tests.app.extensions.openai.test_errors import body_of
from tests.app.keys import key_of
from tests.app.serving import Serve, Serving, app_of, wait_until
from tests.app.slow import SlowChat, SlowRetriever, Waiting
from tests.app.storage.test_api_keys import settings_of
from tests.umbra import CHINESE, ENGLISH, FIRST, PAGE, SECOND, TOWER, rejecting

TALL = "It is 87 metres tall [1]."


@pytest.fixture(scope="module")
def client(service: Serving) -> Iterator[openai.OpenAI]:
    with client_of(service) as client:
        yield client


def ask(client: openai.OpenAI, question: Any = ENGLISH, **more: Any) -> Response:
    response: Response = client.responses.create(
        **{"model": "self_crag", "input": question, **more}
    )
    return response


def streamed(client: openai.OpenAI, **more: Any) -> list[ResponseStreamEvent]:
    with client.responses.create(
        **{"model": "self_crag", "input": ENGLISH, **more}, stream=True
    ) as stream:
        return list(stream)


def summary_of(response: Response) -> str:
    (reasoning,) = [item for item in response.output if item.type == "reasoning"]
    (part,) = reasoning.summary
    return part.text


def notes_of(response: Response) -> list[Any]:
    (message,) = [item for item in response.output if item.type == "message"]
    (content,) = message.content
    assert content.type == "output_text"
    return list(content.annotations)


def seen_again(response: Response) -> dict[str, Any]:
    """All of it but the second of its end, which the store takes a moment later."""
    return response.model_dump(exclude={"completed_at"})


def status_of(serving: Serving, response_id: str) -> str:
    run = serving.client.get(f"/runs/{response_id.removeprefix('resp_')}").json()
    return str(run["status"])


def slow(serve: Serve, **settings: Any) -> tuple[Serving, Waiting]:
    waiting = Waiting()
    return serve(fakes.services(SlowRetriever([TOWER], waiting=waiting)), **settings), waiting


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_a_response_is_answered_cited_and_found_again(client: openai.OpenAI, question: str) -> None:
    response = ask(client, question, metadata={"topic": "towers"}, instructions="Be a pirate.")
    urls = [note for note in notes_of(response) if note.type == "url_citation"]
    files = [note for note in notes_of(response) if note.type == "file_citation"]

    assert (response.status, response.error) == ("completed", None)
    assert ("87" if question == ENGLISH else "八十七") in response.output_text
    assert ("knowledge base" if question == ENGLISH else "检索知识库") in summary_of(response)
    assert urls
    for note in urls:
        assert re.fullmatch(r"http://.+/#document=[0-9a-f]{16}-[0-9a-f]{8}-\d+", note.url)
        assert "[" in response.output_text[note.start_index : note.end_index]
    assert [note.index for note in files] == list(range(len(files)))
    known = client.get(f"../documents/{files[0].file_id}", cast_to=httpx.Response)
    assert known.json()["source"] == files[0].filename
    assert (response.metadata, response.instructions) == ({"topic": "towers"}, "Be a pirate.")
    assert seen_again(client.responses.retrieve(response.id)) == seen_again(response)


def test_a_stream_has_the_events_of_openai_and_never_a_rejected_draft(serve: Serve) -> None:
    with client_of(serve(rejecting())) as client:
        events = streamed(client)
        kinds = [event.type.removeprefix("response.") for event in events]
        whole = events[-1].response  # type: ignore[union-attr]

        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert list(dict.fromkeys(kinds)) == [
            *("created", "in_progress", "output_item.added", "reasoning_summary_part.added"),
            *("reasoning_summary_text.delta", "reasoning_summary_text.done"),
            *("reasoning_summary_part.done", "output_item.done", "content_part.added"),
            *("output_text.delta", "output_text.annotation.added", "output_text.done"),
            *("content_part.done", "completed"),
        ]
        texts = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert "".join(texts) == whole.output_text == SECOND
        steps = [e.delta for e in events if e.type == "response.reasoning_summary_text.delta"]
        assert "".join(steps) == summary_of(whole)
        assert "The draft is withdrawn." in summary_of(whole).splitlines()
        assert FIRST not in str(events)
        assert whole.usage is not None
        assert (whole.usage.input_tokens, whole.usage.output_tokens) == (20, 6)
        assert client.responses.retrieve(whole.id).output == whole.output

        *rest, last = client.responses.retrieve(whole.id, stream=True, starting_after=4)
        assert rest == events[5:-1]
        assert seen_again(last.response) == seen_again(whole)


@pytest.mark.slow
def test_steps_are_told_while_the_run_goes_on_and_a_pages_address_is_cited(serve: Serve) -> None:
    waiting = Waiting()
    chat = SlowChat(chunks=["It was ", "repaired [1]."], waiting=waiting)
    parts = fakes.services(
        fakes.FakeRetriever([TOWER]), chat=chat, web_search=fakes.FakeWebSearch([PAGE])
    )
    options = {"ablation": {"only_action": "incorrect"}, "retrieval": "always"}
    with client_of(serve(parts)) as client:
        with client.responses.create(model="crag", input=ENGLISH, stream=True) as stream:
            for event in stream:
                assert event.type != "response.output_text.delta"
                if event.type.endswith("text.delta") and "Writing" in event.delta:
                    break
        waiting.seconds = 0
        reply = ask(client, model="crag", extra_body={"options": options})
    (note,) = notes_of(reply)
    assert (note.type, note.url, note.title) == ("url_citation", PAGE.url, PAGE.title)
    assert reply.output_text[note.start_index : note.end_index] == "It was repaired [1]."


def test_a_dialogue_goes_on_from_any_response(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=[TALL])
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))
    with client_of(serving) as client:
        first = ask(client, model="crag")
        second = ask(client, "Who built it?", model="crag", previous_response_id=first.id)
        assert "assistant: It is 87 metres tall (1)." in chat.prompt()
        ask(client, "And when?", model="crag", previous_response_id=first.id)
        assert "Who built it?" not in chat.prompt(), "turns after that response are not its own"
        assert second.model_dump()["thread_id"] == first.model_dump()["thread_id"]
        assert second.previous_response_id == first.id

        client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError, match="no response"):
            client.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError) as unknown:
            ask(client, previous_response_id=first.id)
        assert body_of(unknown.value)["code"] == "previous_response_not_found"
        thread = serving.client.get(f"/threads/{first.model_dump()['thread_id']}").json()
        assert [m["content"] for m in thread["messages"]][::2] == ["Who built it?", "And when?"]


def test_a_conversation_and_the_messages_of_the_input_are_the_dialogue(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=[TALL])
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))
    with client_of(serving) as client:
        first = ask(client, model="crag", conversation="chat-1")
        assert first.conversation is not None
        assert first.conversation.id == "chat-1"
        ask(client, "Who built it?", model="crag", conversation={"id": "chat-1"}, store=False)
        assert "assistant: It is 87 metres tall (1)." in chat.prompt()
        messages = [
            {"role": "developer", "content": "Answer like a pirate."},
            {"role": "user", "content": "What stands in Umbra?"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "item_reference", "id": first.output[-1].id},
            {"role": "user", "content": [{"type": "input_text", "text": ENGLISH}]},
        ]
        ask(client, messages, model="crag")
        assert "user: What stands in Umbra?\nassistant: It is 87" in chat.prompt()
        assert "pirate" not in chat.prompt()
    thread = serving.client.get("/threads/chat-1").json()["messages"]
    assert [message["content"] for message in thread] == [ENGLISH, TALL], "not what is not stored"


def test_what_is_not_stored_leaves_nothing(serve: Serve) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER])))
    with client_of(serving) as client:
        response = ask(client, store=False)
        assert response.output_text
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(response.id)
    assert serving.client.get("/runs").json()["total"] == 0


def test_one_in_the_background_is_asked_for_and_cancelled(serve: Serve) -> None:
    serving, waiting = slow(serve)
    with client_of(serving) as client:
        response = ask(client, background=True)
        assert response.status == "in_progress"
        assert response.background
        wait_until(lambda: bool(waiting.at_s), 10)
        assert "knowledge base" in summary_of(client.responses.retrieve(response.id))
        with pytest.raises(openai.ConflictError):
            client.responses.delete(response.id)
        cancelled = client.responses.cancel(response.id)
        assert cancelled.status == "cancelled"
        assert cancelled.output_text, "the best answer so far"
        assert client.responses.cancel(response.id) == cancelled, "a second time changes nothing"
        assert status_of(serving, response.id) == "cancelled"
        assert len(waiting.left_s) == 1


@pytest.mark.slow
@pytest.mark.parametrize("background", [False, True])
def test_only_one_in_the_background_goes_on_without_its_client(
    serve: Serve, background: bool
) -> None:
    serving, waiting = slow(serve)
    with client_of(serving) as client:
        stream = client.responses.create(
            model="rag", input=ENGLISH, stream=True, background=background
        )
        first = next(stream)
        assert first.type == "response.created"
        wait_until(lambda: bool(waiting.at_s), 10)
        stream.close()
        if background:
            time.sleep(0.1)
            assert serving.runs_under_way() == 1
            waiting.seconds = 0
            client.responses.cancel(first.response.id)
        wait_until(lambda: serving.runs_under_way() == 0, 10)
        wait_until(lambda: status_of(serving, first.response.id) == "cancelled", 10)


@pytest.mark.slow
def test_a_stored_response_outlives_the_service(serve: Serve, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    parts = rejecting()
    with client_of(serve(parts, settings)) as client:
        told = ask(client, metadata={"topic": "towers"}, conversation="chat-1")
    with client_of(serve(parts, settings)) as client:
        again = client.responses.retrieve(told.id)
        assert (again.output, again.metadata) == (told.output, told.metadata)
        assert again.conversation == told.conversation
        events = list(client.responses.retrieve(told.id, stream=True))
        assert events[-1].type == "response.completed"
        assert events[-1].response.output == told.output


@pytest.mark.slow
def test_one_in_the_background_is_gone_on_with_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    waiting = Waiting()
    slow_parts = fakes.services(SlowRetriever([TOWER], waiting=waiting))
    with Serving(app_of(slow_parts, settings)) as before, client_of(before) as client:
        with client.responses.create(
            model="crag", input=ENGLISH, background=True, stream=True
        ) as stream:
            first = next(stream)
            assert first.type == "response.created"
            wait_until(lambda: bool(waiting.at_s), 10)
        response_id = first.response.id
    parts = fakes.services(fakes.FakeRetriever([TOWER]))
    with Serving(app_of(parts, settings)) as after, client_of(after) as client:
        *_, last = client.responses.retrieve(response_id, stream=True, starting_after=1)
        assert last.type == "response.completed"
        assert "87" in last.response.output_text
        assert seen_again(client.responses.retrieve(response_id)) == seen_again(last.response)


@pytest.mark.slow
def test_a_failure_is_an_error_and_a_failed_response(serve: Serve) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=fakes.BrokenEvaluator()))
    with client_of(serving) as client:
        with pytest.raises(openai.InternalServerError, match="Quote run"):
            ask(client, model="crag")
        with pytest.raises(openai.APIError, match="Quote run"):
            streamed(client, model="crag")
        (run, _) = serving.client.get("/runs").json()["runs"]
        failed = client.responses.retrieve(f"resp_{run['run_id']}")
    assert failed.status == "failed"
    assert failed.error is not None
    assert failed.error.code == "server_error"


IMAGE = [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "gpt-4"}, 404, "model"),
        ({"input": " "}, 422, "input"),
        ({"input": []}, 422, "input"),
        ({"input": "### Task:\nName it.\n<chat_history></chat_history>"}, 400, "input"),
        ({"input": [{"role": "user", "content": IMAGE}]}, 422, "input.0.content"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, 404, "input[0].id"),
        ({"conversation": "a b"}, 422, "conversation.constrained-str"),
        ({"background": True, "store": False}, 400, "store"),
        (
            {"conversation": "a", "previous_response_id": "resp_1"},
            400,
            "conversation",
        ),
        ({"metadata": {"options": '{"web": 1}'}}, 422, "metadata.options.web"),
    ],
)
def test_a_wrong_request_names_its_field(
    client: openai.OpenAI, fields: dict[str, Any], status: int, param: str
) -> None:
    with pytest.raises(openai.APIStatusError) as raised:
        client.post("/responses", body={"model": "rag", "input": ENGLISH, **fields}, cast_to=object)
    assert raised.value.status_code == status
    assert body_of(raised.value)["param"] == param


@pytest.mark.slow
def test_a_response_is_its_owners_alone(serve: Serve, tmp_path: Path) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER])), settings_of(tmp_path))
    ann, bob = (key_of(tmp_path, owner) for owner in ("ann", "bob"))
    serving.app.state.keys._fresh_s = 0.0
    wait_until(lambda: serving.client.get("/v1/models").status_code == 401, 5)
    with client_of(serving) as client:
        of_ann, of_bob = client.with_options(api_key=ann), client.with_options(api_key=bob)
        response = ask(of_ann, model="rag", conversation="chat-1")
        for reach in (
            of_bob.responses.retrieve,
            of_bob.responses.cancel,
            of_bob.responses.delete,
            lambda known: ask(of_bob, previous_response_id=known),
            lambda _: ask(of_bob, conversation="chat-1"),
            lambda known: ask(
                of_bob,
                [
                    {"type": "item_reference", "id": known.replace("resp", "msg")},
                    {"role": "user", "content": ENGLISH},
                ],
            ),
        ):
            with pytest.raises(openai.NotFoundError):
                reach(response.id)
        hidden = ask(of_bob, conversation="chat-1", store=False)
        assert "87" not in str(hidden.instructions)
        assert of_ann.responses.retrieve(response.id).status == "completed"
