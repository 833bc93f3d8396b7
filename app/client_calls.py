"""What the two clients ask for and how they read it: requests, answers, events, errors.

Only httpx, pydantic and the wire types are needed here.

ClientError
 ├─ ProblemError        the service refused; `.problem` says why
 ├─ ServiceUnreachable  no connection, or it broke
 └─ UnexpectedResponse  whoever answered is not the service (a proxy, a portal, another version)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from app.schemas import (
    AnswerEvent,
    AskResponse,
    DoneEvent,
    ErrorEvent,
    Event,
    Health,
    Problem,
    RetractEvent,
    RunEvent,
    StepEvent,
    TokenEvent,
    Workflows,
)

T = TypeVar("T")

PLAIN: tuple[type[Event], ...] = (RunEvent, StepEvent, TokenEvent, RetractEvent, DoneEvent)
HERE = "http://127.0.0.1:8000"
TIMEOUT_S = 120.0
"""Longer than a run's default deadline."""
RETRIES = 3
LONGEST_WAIT_S = 30.0
SHORTEST_WAIT_S = 0.5
TRY_AGAIN = {429, 503}
# Heartbeats come every 15 s: a stream that is silent for longer has lost its connection.
SILENCE_S = 40.0


class ClientError(Exception):
    """`str(error)` is fit to be shown to a user."""


class ProblemError(ClientError):
    """The service answered with a problem; `retry_after_s` where it says when to ask again."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem, self.retry_after_s = problem, retry_after_s


class ServiceUnreachable(ClientError):
    """There is no connection to the service, or it broke."""


class UnexpectedResponse(ClientError):
    """The answer is none that this service gives."""


class Patience:
    """How often both clients try again."""

    def __init__(self, retries: int) -> None:
        self._retries = retries

    def _pause_s(self, response: httpx.Response, attempt: int) -> float | None:
        """Seconds to wait before asking again; None where the answer is to be taken."""
        return wait_s(response, attempt) if attempt < self._retries else None

    def _resumed(
        self, reader: "EventReader", breaks: int, broken: Exception | None
    ) -> "Call[None]":
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
    files: Mapping[str, Any] | None = None
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
    return Call("POST", f"/runs/{quote(run_id, safe='')}/cancel", nothing)


def events(run_id: str, after: int | None) -> Call[None]:
    """The events of a run behind number `after`, or all."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    path = f"/runs/{quote(run_id, safe='')}/events"
    return Call("GET", path, nothing, headers=headers, silence_s=SILENCE_S)


def workflows() -> Call[Workflows]:
    return Call("GET", "/workflows", read_as(Workflows))


def health() -> Call[Health]:
    return Call("GET", "/health/ready", read_as(Health))


class EventReader:
    """Lines of an event stream in, typed events out; `last_id` is where to go on after a break."""

    def __init__(self, run_id: str | None = None, last_id: int | None = None) -> None:
        self.run_id, self.last_id = run_id, last_id
        self.is_done = False
        self._lines: dict[str, str] = {}

    def begin_again(self) -> None:
        """What was half read when the connection broke comes again."""
        self._lines = {}

    def take(self, line: str) -> Iterator[Event]:
        """The event that ends with this line, if any; kinds unknown to this version are skipped."""
        if line and not line.startswith(":"):
            name, _, value = line.partition(":")
            self._lines[name] = value.removeprefix(" ")
            return
        if line or not (told := self._take_lines()):
            return
        number = told.get("id", "")
        if number.isdigit():
            if self.last_id is not None and int(number) <= self.last_id:
                return
            self.last_id = int(number)
        event = event_of(told.get("event", ""), told.get("data", ""))
        if isinstance(event, RunEvent):
            self.run_id = event.run_id
        self.is_done = isinstance(event, DoneEvent)
        if event is not None:
            yield event

    def _take_lines(self) -> dict[str, str]:
        told, self._lines = self._lines, {}
        return told if "data" in told else {}


def event_of(name: str, data: str) -> Event | None:
    """Raises UnexpectedResponse where the data are not those of such an event."""
    try:
        if name == AnswerEvent.name:
            return AnswerEvent(response=AskResponse.model_validate_json(data))
        if name == ErrorEvent.name:
            return ErrorEvent(problem=Problem.model_validate_json(data))
        for kind in PLAIN:
            if kind.name == name:
                return kind.model_validate_json(data)
    except ValidationError as error:
        raise UnexpectedResponse(
            f"An event {name} is not as expected: {error.errors()[0]['msg']}"
        ) from error
    return None
