"""The typed client against the real service, and against servers that misbehave."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from app.client import (
    AsyncSelfCrag,
    ProblemError,
    SelfCrag,
    ServiceUnreachable,
    UnexpectedResponse,
    calls,
)
from app.client.events import EventReader, read_event
from app.document_schemas import ProgressEvent
from app.main import create_app
from app.schemas import AnswerEvent, DoneEvent, ErrorEvent, Event, RunEvent, StepEvent, TokenEvent
from app.settings import Settings
from tests import fakes
from tests.app.serving import Serving, wait_until
from tests.app.slow import SlowRetriever, SlowWebSearch

Serve = Callable[..., Serving]
QUESTION = "How tall is the red tower?"
HEAVY = (
    "fastapi",
    "starlette",
    "langgraph",
    "langchain_core",
    "lancedb",
    "numpy",
    "torch",
    "sqlalchemy",
)
PROBLEM = b'{"type": "about:blank", "title": "Too many runs", "status": 503, "detail": "Wait."}'


def test_the_client_needs_httpx_and_pydantic_alone() -> None:
    """A program that only asks installs nothing of the service."""
    code = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import app.client
ours = ("app", "graphs")
print(sorted(m for m in sys.modules if m.split(".")[0] in ours))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "app.schemas" in done.stdout
    for module in ("app.settings", "app.errors", "graphs.state"):
        assert f"'{module}'" not in done.stdout


@pytest.fixture
def serving(serve: Serve) -> Serving:
    return serve(fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is tall.")])))


@pytest.fixture
def rag(serving: Serving) -> Iterator[SelfCrag]:
    with SelfCrag(serving.url) as client:
        yield client


def test_ask_brings_the_whole_answer(rag: SelfCrag) -> None:
    answer = rag.ask(QUESTION, workflow="crag", thread_id="t-1", options={"web": "never"})
    assert answer.answer
    assert (answer.workflow, answer.thread_id) == ("crag", "t-1")
    assert answer.citations[0].text == "The red tower is tall."


def test_stream_brings_typed_events_and_the_answer(rag: SelfCrag) -> None:
    events = list(rag.stream(QUESTION, workflow="crag"))
    (answer,) = [event.response for event in events if isinstance(event, AnswerEvent)]
    tokens = "".join(event.text for event in events if isinstance(event, TokenEvent))

    assert isinstance(events[0], RunEvent)
    assert isinstance(events[-1], DoneEvent)
    assert any(isinstance(event, StepEvent) and event.took_ms for event in events)
    assert tokens == answer.answer


def test_what_is_refused_is_a_typed_problem(rag: SelfCrag) -> None:
    with pytest.raises(ProblemError) as raised:
        rag.ask(QUESTION, options={"upper": "x"})
    assert raised.value.problem.status == 422
    assert raised.value.problem.errors is not None
    assert raised.value.problem.errors[0].pointer == "#/options/upper"
    with pytest.raises(ProblemError, match="#/workflow"):
        list(rag.stream(QUESTION, workflow="nope"))


def test_workflows_and_readiness(rag: SelfCrag) -> None:
    told = rag.workflows()
    assert told.default in {workflow.name for workflow in told.workflows}
    assert rag.is_ready()
    with SelfCrag("http://127.0.0.1:9", retries=0) as nowhere:
        assert not nowhere.is_ready()
        with pytest.raises(ServiceUnreachable):
            nowhere.ask(QUESTION)
        with pytest.raises(ServiceUnreachable):
            list(nowhere.stream(QUESTION))


@pytest.mark.parametrize("status", [502, 503])
@pytest.mark.parametrize("page", ["<html>Bad Gateway</html>", "<html>网关错误</html>"])
async def test_behind_a_proxy_that_finds_no_service_nothing_is_ready(
    status: int, page: str
) -> None:
    with scripted((status, {"Content-Type": "text/html"}, page.encode())) as proxy:
        with SelfCrag(proxy.url, retries=0) as rag:
            assert not rag.is_ready()
        async with AsyncSelfCrag(proxy.url, retries=0) as rag:
            assert not await rag.is_ready()


async def test_the_asynchronous_client_does_the_same(serving: Serving) -> None:
    async with AsyncSelfCrag(serving.url) as rag:
        answer = await rag.ask(QUESTION, workflow="rag")
        streamed = [event async for event in rag.stream(QUESTION, workflow="rag")]
        assert (await rag.workflows()).default
        assert await rag.is_ready()
        with pytest.raises(ProblemError):
            await rag.ask("")
    (told,) = [event.response for event in streamed if isinstance(event, AnswerEvent)]
    assert told.answer == answer.answer


def test_both_clients_have_the_same_methods() -> None:
    def methods(client: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(client, inspect.isfunction)
            if not name.startswith("_") and name not in {"close", "aclose"}
        }

    assert methods(SelfCrag) == methods(AsyncSelfCrag)


# --- servers that misbehave -----------------------------------------------------

Answer = tuple[int, dict[str, str], bytes]
EVENTS = (
    b'event: run\ndata: {"run_id":"r1","thread_id":"t","workflow":"rag"}\nid: 0\n\n',
    b": \n\n",
    b'event: unheard_of\ndata: {"a":1}\nid: 1\n\n',
    b'event: token\ndata: {"round":0,"text":"\xe5\xa1\x94 a"}\nid: 2\n\n',
    b'event: token\ndata: {"round":0,"text":" b"}\nid: 3\n\n',
    b"event: done\ndata: {}\nid: 4\n\n",
)
STREAM = b"".join(EVENTS)


class Scripted(ThreadingHTTPServer):
    """Answers one after the other, the last one for ever; `seen` are method, path, last id."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.seen = list(answers), list[tuple[str, str, str | None]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.do_GET()

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path, self.headers.get("last-event-id")))
        answers = self.server.answers
        status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing to say."""


@contextmanager
def scripted(*answers: Answer) -> Iterator[Scripted]:
    with Scripted(answers) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def cut(at: int) -> Answer:
    """A stream that breaks after so many bytes."""
    return (
        200,
        {"Content-Type": "text/event-stream", "Content-Length": str(len(STREAM))},
        STREAM[:at],
    )


def after(number: int | None) -> Answer:
    """What is replayed behind an event."""
    rest = b"".join(EVENTS) if number is None else b"".join(EVENTS[2 + number :])
    return 200, {"Content-Type": "text/event-stream"}, rest


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "SHORTEST_WAIT_S", 0.001)


def told(events: list[Event]) -> list[object]:
    return [event.text if isinstance(event, TokenEvent) else type(event) for event in events]


WHOLE = [RunEvent, "塔 a", " b", DoneEvent]


@pytest.mark.parametrize(
    "at", [len(EVENTS[0]), len(STREAM) // 2, len(STREAM) - 40, len(STREAM) - 1]
)
def test_a_broken_stream_is_taken_up(at: int) -> None:
    reader = EventReader()
    for line in STREAM[:at].decode("utf-8", "replace").split("\n")[:-1]:
        list(reader.take(line))
    with scripted(cut(at), after(reader.last_id)) as server, SelfCrag(server.url) as rag:
        assert told(list(rag.stream(QUESTION))) == WHOLE
    assert server.seen[1] == ("GET", "/runs/r1/events", str(reader.last_id))


async def test_a_broken_stream_is_taken_up_asynchronously() -> None:
    with scripted(cut(len(EVENTS[0])), after(0)) as server:
        async with AsyncSelfCrag(server.url) as rag:
            assert told([event async for event in rag.stream(QUESTION)]) == WHOLE


def test_what_was_told_is_not_told_again() -> None:
    with scripted(cut(len(STREAM) - 30), after(None)) as server, SelfCrag(server.url) as rag:
        assert told(list(rag.stream(QUESTION))) == WHOLE


def test_a_stream_that_breaks_for_ever_is_given_up() -> None:
    with scripted(cut(len(EVENTS[0]))) as server, SelfCrag(server.url, retries=2) as rag:
        with pytest.raises(ServiceUnreachable):
            list(rag.stream(QUESTION))
        assert [path for _, path, _ in server.seen] == [
            "/ask", "/runs/r1/events", "/runs/r1/events", "/runs/r1/cancel",
        ]  # fmt: skip


def test_a_stream_without_a_beginning_is_not_asked_again() -> None:
    """Its run would be another one."""
    with scripted(cut(10)) as server, SelfCrag(server.url) as rag:
        with pytest.raises(ServiceUnreachable):
            list(rag.stream(QUESTION))
        assert len(server.seen) == 1


@pytest.mark.parametrize("detach", [False, True])
def test_leaving_a_stream_ends_its_run_unless_detached(detach: bool) -> None:
    with scripted(cut(len(STREAM)), (202, {}, b"")) as server, SelfCrag(server.url) as rag:
        events = rag.stream(QUESTION, detach=detach)
        next(events)
        events.close()
        paths = [path for _, path, _ in server.seen]
    assert paths == (["/ask"] if detach else ["/ask", "/runs/r1/cancel"])


async def test_leaving_a_stream_ends_its_run_asynchronously() -> None:
    with scripted(cut(len(STREAM)), (202, {}, b"")) as server:
        async with AsyncSelfCrag(server.url) as rag, aclosing(rag.stream(QUESTION)) as events:
            await anext(events)
        assert [path for _, path, _ in server.seen] == ["/ask", "/runs/r1/cancel"]


@pytest.mark.parametrize("status", [429, 503])
def test_overload_is_asked_again_after_the_time_it_names(status: int) -> None:
    busy = (status, {"Retry-After": "0"}, PROBLEM)
    with scripted(busy, busy, cut(len(STREAM))) as server, SelfCrag(server.url) as rag:
        assert told(list(rag.stream(QUESTION))) == WHOLE
        assert len(server.seen) == 3


def test_overload_that_stays_is_told() -> None:
    busy = (503, {"Retry-After": "0"}, PROBLEM)
    with scripted(busy) as server, SelfCrag(server.url, retries=2) as rag:
        with pytest.raises(ProblemError) as raised:
            rag.ask(QUESTION)
        assert raised.value.problem.title == "Too many runs"
        assert len(server.seen) == 3


def test_a_wait_that_is_too_long_is_not_waited() -> None:
    busy = (503, {"Retry-After": "3600"}, PROBLEM)
    with scripted(busy) as server, SelfCrag(server.url) as rag:
        with pytest.raises(ProblemError) as raised:
            rag.ask(QUESTION)
        assert raised.value.retry_after_s == 3600
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (502, {"Content-Type": "text/html"}, b"<h1>Bad gateway</h1>"),
        (200, {"Content-Type": "text/html"}, b"<h1>Log in</h1>"),
        (200, {"Content-Type": "application/json"}, b'{"answer": 1}'),
        (404, {}, b""),
    ],
)
def test_whoever_is_not_the_service_is_told_apart(answer: Answer) -> None:
    with scripted(answer) as server, SelfCrag(server.url, retries=0) as rag:
        with pytest.raises(UnexpectedResponse):
            rag.ask(QUESTION)
        with pytest.raises(UnexpectedResponse):
            rag.workflows()


def test_a_damaged_event_is_told() -> None:
    with pytest.raises(UnexpectedResponse):
        read_event("answer", '{"answer": 1}')
    with pytest.raises(UnexpectedResponse):
        read_event("token", "no JSON")
    assert read_event("later", "no JSON") is None


def test_an_error_event_is_one_event_of_the_stream() -> None:
    body = b"event: error\ndata: " + PROBLEM + b"\nid: 1\n\nevent: done\ndata: {}\nid: 2\n\n"
    with scripted((200, {}, EVENTS[0] + body)) as server, SelfCrag(server.url) as rag:
        events = list(rag.stream(QUESTION))
    assert [type(event) for event in events] == [RunEvent, ErrorEvent, DoneEvent]


async def test_a_cancelled_task_leaves_no_run(serve: Serve) -> None:

    serving = serve(fakes.services(SlowRetriever([fakes.passage("Tall.")])))
    async with AsyncSelfCrag(serving.url) as rag:
        asking = asyncio.create_task(rag.ask(QUESTION))
        await asyncio.to_thread(wait_until, lambda: serving.runs_under_way() == 1, 5)
        asking.cancel()
        await asyncio.to_thread(wait_until, lambda: serving.runs_under_way() == 0, 5)


# --- runs, threads, documents -----------------------------------------------------


def test_runs_and_threads_are_read_judged_and_forgotten(rag: SelfCrag) -> None:
    answer = rag.ask(QUESTION, workflow="rag", thread_id="talk")
    listed = rag.runs(thread_id="talk")
    trace = rag.run(answer.run_id)
    again = list(rag.events(answer.run_id))

    assert [run.run_id for run in listed.runs] == [answer.run_id]
    assert trace.answer == answer
    assert [event.name for event in again] == [event.name for event in trace.events]
    assert [event.name for event in rag.events(answer.run_id, after=0)] == [
        event.name for event in trace.events[1:]
    ]
    assert list(rag.events(answer.run_id, after=len(again) - 1)) == []
    judged = rag.give_feedback(answer.run_id, 1, comment="Right.")
    assert (judged.score, judged.comment) == (1, "Right.")
    assert [message.content for message in rag.thread("talk").messages] == [
        QUESTION,
        answer.answer,
    ]
    rag.delete_thread("talk")
    with pytest.raises(ProblemError) as raised:
        rag.thread("talk")
    assert raised.value.problem.status == 404


async def test_runs_and_threads_asynchronously(serving: Serving) -> None:
    async with AsyncSelfCrag(serving.url) as rag:
        answer = await rag.ask(QUESTION, workflow="rag", thread_id="talk")
        assert (await rag.runs()).total == 1
        assert (await rag.run(answer.run_id)).answer == answer
        assert (await rag.give_feedback(answer.run_id, -1)).score == -1
        assert len((await rag.thread("talk")).messages) == 2
        await rag.delete_thread("talk")
        assert [event async for event in rag.stream(QUESTION)][-1] == DoneEvent()


def test_cancelling_brings_the_best_answer_so_far(serve: Serve) -> None:
    search = SlowWebSearch()
    serving = serve(fakes.services(fakes.FakeRetriever(), web_search=search))
    with SelfCrag(serving.url) as rag:
        stopped_by = []
        for event in rag.stream(QUESTION, workflow="crag"):
            if isinstance(event, StepEvent) and event.step == "search_web":
                rag.cancel(rag.runs().runs[0].run_id)
            if isinstance(event, AnswerEvent):
                stopped_by.append(event.response.stopped_by)
    assert stopped_by == ["cancelled"]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Serving]:
    """A service with a knowledge base of its own."""
    settings = Settings(_env_file=None, data_dir=tmp_path / "state", search="off")
    with Serving(create_app(settings)) as serving:
        yield serving


def test_documents_are_brought_in_listed_and_deleted(library: Serving, tmp_path: Path) -> None:
    page = tmp_path / "lamps.md"
    page.write_text("# Lamps\n\nThe lamp of Arbor burns whale oil.\n", encoding="utf-8")
    picture = tmp_path / "picture.exe"
    picture.write_bytes(b"MZ\x00")
    progress: list[ProgressEvent] = []
    with SelfCrag(library.url) as rag:
        report = rag.upload(page, picture, on_progress=progress.append)
        listed = rag.documents(query="lamps")
        answer = rag.ask("What does the lamp of Arbor burn?", workflow="rag")
        rag.delete_document(listed.documents[0].id)
        left = rag.documents().total

    assert [document.source for document in report.documents] == report.added
    assert [refused.source for refused in report.refused] == ["picture.exe"]
    assert progress
    assert listed.total == 1
    assert "whale oil" in answer.answer
    assert left == 0


async def test_documents_asynchronously(library: Serving, tmp_path: Path) -> None:
    page = tmp_path / "lamps.md"
    page.write_text("# 灯\n\n阿伯尔的灯烧鲸油。\n", encoding="utf-8")
    async with AsyncSelfCrag(library.url) as rag:
        report = await rag.upload(page)
        assert len(report.added) == 1
        (document,) = (await rag.documents()).documents
        await rag.delete_document(document.id)
        with pytest.raises(FileNotFoundError):
            await rag.upload(tmp_path / "nowhere.md")
