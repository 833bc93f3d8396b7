"""Threads: conversations that go on, never mix, outlive the service, and belong to someone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.settings import Settings
from tests import fakes
from tests.app.serving import Serve, Serving, wait_until
from tests.app.slow import SlowChat, Waiting
from tests.umbra import ENGLISH, TOWER

NEXT = "And who built the red tower of Umbra?"
TALL = "It is 87 metres tall [1]."


def chatting(chat: fakes.FakeChat | None = None) -> fakes.Services:
    return fakes.services(fakes.FakeRetriever([TOWER]), chat=chat or fakes.FakeChat(chunks=[TALL]))


def messages_of(serving: Serving, thread_id: str) -> list[tuple[str, str]]:
    response = serving.client.get(f"/threads/{thread_id}")
    assert response.status_code == 200, response.text
    return [(message["role"], message["content"]) for message in response.json()["messages"]]


def test_a_thread_goes_on(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=[TALL])
    serving = serve(chatting(chat))
    first = serving.ask(ENGLISH, workflow="crag")
    before = len(chat.asked)
    second = serving.ask(NEXT, workflow="crag", thread_id=first["thread_id"])
    prompts = str(chat.asked[before:])

    assert second["thread_id"] == first["thread_id"]
    assert f"user: {ENGLISH}" in prompts
    assert "assistant: It is 87 metres tall (1)." in prompts
    assert messages_of(serving, first["thread_id"]) == [
        ("user", ENGLISH),
        ("assistant", TALL),
        ("user", NEXT),
        ("assistant", TALL),
    ]
    told = serving.client.get(f"/threads/{first['thread_id']}").json()
    assert told["messages"][1]["citations"] == first["citations"]
    assert told["messages"][3]["run_id"] == second["run_id"]
    assert told["created_at"] < told["updated_at"]


def test_a_thread_may_be_named_by_the_client(serve: Serve) -> None:
    serving = serve(chatting())
    assert serving.ask(ENGLISH, thread_id="chat-1")["thread_id"] == "chat-1"
    assert len(messages_of(serving, "chat-1")) == 2
    assert serving.ask(ENGLISH, thread_id=".chat..1")["thread_id"] == ".chat..1"
    first, second = serving.ask(ENGLISH), serving.ask(ENGLISH)
    assert first["thread_id"] != second["thread_id"], "a new one where none is named"
    assert first["run_id"] != second["run_id"]
    for name in (".", "..", "...", "", "x" * 129):
        refused = serving.client.post("/ask", json={"question": ENGLISH, "thread_id": name})
        assert (refused.status_code, "#/thread_id" in refused.json()["detail"]) == (422, True)


def test_streams_and_detached_runs_belong_to_their_thread(serve: Serve) -> None:
    serving = serve(chatting(SlowChat(chunks=["Tall ", "[1]."], waiting=Waiting(0.05))))
    serving.stream(ENGLISH, workflow="crag", thread_id="t")
    with serving.following(NEXT, detach=True, thread_id="t", workflow="crag") as live:
        next(live)
    wait_until(lambda: serving.runs_under_way() == 0, 5)
    assert [content for _, content in messages_of(serving, "t")] == [
        ENGLISH,
        "Tall [1].",
        NEXT,
        "Tall [1].",
    ]


def test_a_cancelled_run_leaves_no_turn_and_no_empty_thread(serve: Serve) -> None:
    waiting = Waiting()
    chat = SlowChat(chunks=["Tall ", "[1]."], waiting=waiting)
    serving = serve(chatting(chat))
    with serving.following(ENGLISH, thread_id="t", workflow="crag") as live:
        next(live)
        wait_until(lambda: bool(waiting.at_s), 5)
    wait_until(lambda: serving.runs_under_way() == 0, 5)
    assert serving.client.get("/threads/t").status_code == 404

    chat.waiting = Waiting(0.0)
    assert serving.ask(ENGLISH, thread_id="t", workflow="crag")["stopped_by"] == "answered"


def test_a_long_answer_is_told_to_the_next_question_in_part(serve: Serve) -> None:
    """The dialogue has room for its beginning."""
    chat = fakes.FakeChat(chunks=["The tower is red. " * 1200])
    serving = serve(chatting(chat))
    serving.ask(ENGLISH, workflow="crag", thread_id="t")
    before = len(chat.asked)
    serving.ask(NEXT, workflow="crag", thread_id="t")
    prompts = str(chat.asked[before:])

    assert f"user: {ENGLISH}" in prompts
    assert "assistant: The tower is red. " in prompts


def test_threads_never_mix(serve: Serve) -> None:
    serving = serve(chatting())

    def talk(name: str) -> None:
        for turn in range(3):
            serving.ask(f"{name}: question {turn} of the red tower?", thread_id=name)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(talk, "abcd"))
    for name in "abcd":
        asked = [content for role, content in messages_of(serving, name) if role == "user"]
        assert asked == [f"{name}: question {turn} of the red tower?" for turn in range(3)]


def assert_thread_outlives_the_service(serve: Serve, settings: Settings) -> None:
    serve(chatting(), settings).ask(ENGLISH, thread_id="t")
    chat = fakes.FakeChat(chunks=[TALL])
    later = serve(chatting(chat), settings)
    later.ask(NEXT, thread_id="t", workflow="crag")

    assert f"user: {ENGLISH}" in str(chat.asked)
    asked = [content for role, content in messages_of(later, "t") if role == "user"]
    assert asked == [ENGLISH, NEXT]
    assert later.client.delete("/threads/t").status_code == 204
    assert later.client.get("/threads/t").status_code == 404
    assert later.client.get("/runs").json()["total"] == 0


def test_a_thread_outlives_the_service(serve: Serve, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    assert_thread_outlives_the_service(serve, settings)


def test_a_busy_thread_turns_others_away(serve: Serve) -> None:
    """One that was just opened, too."""
    serving = serve(chatting(SlowChat(chunks=["Tall ", "[1]."], waiting=Waiting())))
    with serving.following(ENGLISH, workflow="crag") as live:
        thread_id = next(live).data["thread_id"]
        busy = serving.client.post("/ask", json={"question": NEXT, "thread_id": thread_id})
        deleted = serving.client.delete(f"/threads/{thread_id}")

    for refused in (busy, deleted):
        assert refused.status_code == 409
        assert int(refused.headers["retry-after"]) > 0
        assert refused.headers["content-type"] == "application/problem+json"


def test_a_deleted_thread_takes_its_runs_along(serve: Serve) -> None:
    serving = serve(chatting())
    run_id = serving.ask(ENGLISH, thread_id="t")["run_id"]
    other = serving.ask(ENGLISH, thread_id="u")["run_id"]
    serving.client.post(f"/runs/{run_id}/feedback", json={"score": 1})

    assert serving.client.delete("/threads/t").status_code == 204
    assert serving.client.get("/threads/t").status_code == 404
    assert serving.client.get(f"/runs/{run_id}").status_code == 404
    assert serving.client.get(f"/runs/{other}").status_code == 200
    serving.ask(NEXT, thread_id="t")
    assert len(messages_of(serving, "t")) == 2, "it begins anew"
