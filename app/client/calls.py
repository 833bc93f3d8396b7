"""The requests of the clients and how their answers are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from app.client.errors import ProblemError, ServiceUnreachable, UnexpectedResponse
from app.client.events import EventReader
from app.document_schemas import Documents
from app.run_schemas import Feedback, FeedbackRequest, RunList, StoredRun, Thread
from app.schemas import AskResponse, Health, Problem, Workflows

T = TypeVar("T")

HERE = "http://127.0.0.1:8000"
TIMEOUT_S = 120.0
"""Longer than a run's default deadline."""
RETRIES = 3
LONGEST_WAIT_S = 30.0
SHORTEST_WAIT_S = 0.5
TRY_AGAIN = {429, 503}
NOTHING_MORE = 204
# Heartbeats come every 15 s: a stream that is silent for longer has lost its connection.
SILENCE_S = 40.0


class Patience:
    """How often both clients try again."""

    def __init__(self, retries: int) -> None:
        self._retries = retries

    def _pause_s(self, response: httpx.Response, attempt: int) -> float | None:
        """Seconds to wait before asking again; None where the answer is to be taken."""
        return wait_s(response, attempt) if attempt < self._retries else None

    def _resumed(self, reader: EventReader, breaks: int, broken: Exception | None) -> "Call[None]":
        """How to go on with a broken stream. Raises ServiceUnreachable where that is no use."""
        if reader.run_id is None or breaks >= self._retries:
            raise ServiceUnreachable(unreachable(broken)) from broken
        reader.begin_again()
        return events(reader.run_id, reader.last_id)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    json: object = None
    params: Mapping[str, str | int] = field(default_factory=dict)
    files: Sequence[tuple[str, tuple[str, BinaryIO]]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    silence_s: float | None = None

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """`silence_s` bounds the wait for the next words of a stream."""
        request = http.build_request(
            self.method,
            self.path,
            json=self.json,
            params=self.params,
            files=self.files,
            headers=self.headers,
        )
        if self.silence_s is not None:
            request.extensions["timeout"]["read"] = self.silence_s
        return request

    def result(self, response: httpx.Response) -> T:
        """Raises ProblemError or UnexpectedResponse."""
        check(response)
        try:
            return self.read(response)
        except ValidationError as error:
            raise UnexpectedResponse(
                f"{response.url} gave another answer than expected: {error.errors()[0]['msg']}"
            ) from error


def read_as(kind: type[T]) -> Callable[[httpx.Response], T]:
    """Reads JSON as a wire type."""
    adapter = TypeAdapter(kind)
    return lambda response: adapter.validate_json(response.content)


def nothing(_: httpx.Response) -> None:
    """Reads an answer that says no more than that it was done."""


def check(response: httpx.Response) -> None:
    """Raises ProblemError, or UnexpectedResponse where a problem is no problem document."""
    if response.is_success:
        return
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        raise UnexpectedResponse(
            f"{response.url} answered {response.status_code}, and not as the service does."
        ) from None
    raise ProblemError(problem, retry_after_s(response))


def unreachable(error: Exception | None) -> str:
    why = "the stream ended before its run" if error is None else str(error) or type(error).__name__
    return f"No answer of the service: {why}."


def authorization(api_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def retry_after_s(response: httpx.Response) -> float | None:
    told = response.headers.get("retry-after", "")
    return float(told) if told.isdigit() else None


def wait_s(response: httpx.Response, attempt: int) -> float | None:
    """Seconds to wait before asking again; None where that is no use."""
    if response.status_code not in TRY_AGAIN:
        return None
    told = retry_after_s(response)
    wanted = backoff_s(attempt) if told is None else told
    return wanted if wanted <= LONGEST_WAIT_S else None


def backoff_s(attempt: int) -> float:
    return SHORTEST_WAIT_S * float(2**attempt)


def ask(
    question: str,
    workflow: str | None,
    thread_id: str | None,
    options: Mapping[str, Any] | None,
    **more: bool,
) -> Call[AskResponse]:
    """What is left out is left to the service."""
    named = {"workflow": workflow, "thread_id": thread_id, "options": options}
    told = {name: value for name, value in named.items() if value is not None}
    body = {"question": question, **told, **more}
    silence_s = SILENCE_S if more.get("stream") else None
    return Call("POST", "/ask", read_as(AskResponse), json=body, silence_s=silence_s)


def cancel(run_id: str) -> Call[None]:
    return Call("POST", f"/runs/{_named(run_id)}/cancel", nothing)


def events(run_id: str, after: int | None) -> Call[None]:
    """The events of a run behind number `after`, or all."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    path = f"/runs/{_named(run_id)}/events"
    return Call("GET", path, nothing, headers=headers, silence_s=SILENCE_S)


def runs(limit: int, offset: int, thread_id: str | None) -> Call[RunList]:
    params: dict[str, str | int] = {"limit": limit, "offset": offset}
    if thread_id is not None:
        params["thread_id"] = thread_id
    return Call("GET", "/runs", read_as(RunList), params=params)


def run(run_id: str) -> Call[StoredRun]:
    return Call("GET", f"/runs/{_named(run_id)}", read_as(StoredRun))


def judge(
    run_id: str, score: float, comment: str | None, corrected_answer: str | None
) -> Call[Feedback]:
    said = FeedbackRequest(score=score, comment=comment, corrected_answer=corrected_answer)
    body = said.model_dump(exclude_none=True)
    return Call("POST", f"/runs/{_named(run_id)}/feedback", read_as(Feedback), json=body)


def thread(thread_id: str) -> Call[Thread]:
    return Call("GET", f"/threads/{_named(thread_id)}", read_as(Thread))


def delete_thread(thread_id: str) -> Call[None]:
    return Call("DELETE", f"/threads/{_named(thread_id)}", nothing)


def upload(files: Sequence[tuple[str, BinaryIO]]) -> Call[None]:
    """Answered with the progress as events; a file's name tells what kind it is."""
    return Call(
        "POST",
        "/documents",
        nothing,
        files=[("files", (name, content)) for name, content in files],
        headers={"Accept": "text/event-stream"},
        silence_s=SILENCE_S,
    )


def opened(paths: Sequence[Path | str]) -> list[tuple[str, BinaryIO]]:
    """The files by their names; to be closed by the caller. Raises OSError, with none left open."""
    files: list[tuple[str, BinaryIO]] = []
    try:
        for path in map(Path, paths):
            files.append((path.name, path.open("rb")))
    except OSError:
        closed(files)
        raise
    return files


def closed(files: Sequence[tuple[str, BinaryIO]]) -> None:
    for _, content in files:
        content.close()


def documents(query: str, limit: int, offset: int) -> Call[Documents]:
    params: dict[str, str | int] = {"q": query, "limit": limit, "offset": offset}
    return Call("GET", "/documents", read_as(Documents), params=params)


def delete_document(document_id: str) -> Call[None]:
    return Call("DELETE", f"/documents/{_named(document_id)}", nothing)


def workflows() -> Call[Workflows]:
    return Call("GET", "/workflows", read_as(Workflows))


def health() -> Call[Health]:
    return Call("GET", "/health/ready", read_as(Health))


def _named(some_id: str) -> str:
    return quote(some_id, safe="")
