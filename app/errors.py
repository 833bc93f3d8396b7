"""What the service answers when it cannot: one tree, mapped to HTTP in one place.

ServiceError
 ├─ StartFailed        the service cannot start as configured (told on the terminal, no HTTP)
 ├─ InvalidRequest     422, names the fields
 ├─ Refused            the door stays shut, before anything is read
 │   ├─ KeyRequired    401
 │   ├─ KeyRefused     401
 │   ├─ ScopeMissing   403
 │   ├─ HostRefused    403
 │   ├─ OriginRefused  403
 │   └─ KeysUnreadable 503 with Retry-After
 ├─ NotFound           404, unknown or another owner's
 ├─ ThreadBusy         409 with Retry-After
 ├─ StoreFailed        503 with Retry-After
 ├─ DocumentsProblem   403, 409 with Retry-After, 413 or 503: documents cannot be changed
 └─ TooManyRuns        503 with Retry-After
"""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from app.schemas.ask import FieldError, Problem

log = logging.getLogger(__name__)

MOST_FIELD_ERRORS = 20
RETRY_AFTER_S = "2"


class ServiceError(Exception):
    """`str(error)` is fit to be shown to a user."""


class StartFailed(ServiceError):
    """A part the service was told to use is missing or does not work."""


class InvalidRequest(ServiceError):
    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.errors = [FieldError(pointer=pointer, detail=detail)]


class Refused(ServiceError):
    """Whoever asks is not let in; `challenge` tells a client what would be asked of it."""

    status: ClassVar[HTTPStatus] = HTTPStatus.FORBIDDEN

    def __init__(self, detail: str, challenge: str | None = None) -> None:
        super().__init__(detail)
        told = 'Bearer realm="self-crag"' + (f", {challenge}" if challenge else "")
        self.headers = {} if challenge is None else {"WWW-Authenticate": told}


class KeyRequired(Refused):
    status = HTTPStatus.UNAUTHORIZED

    def __init__(self) -> None:
        super().__init__("Send a key as `Authorization: Bearer KEY`.", challenge="")


class KeyRefused(Refused):
    status = HTTPStatus.UNAUTHORIZED

    def __init__(self) -> None:
        super().__init__(
            "This key is not known here, or it was revoked.", challenge='error="invalid_token"'
        )


class ScopeMissing(Refused):
    def __init__(self, scope: str) -> None:
        super().__init__(
            f"This key does not allow it: the scope {scope!r} is missing.",
            challenge=f'error="insufficient_scope", scope="{scope}"',
        )


class HostRefused(Refused):
    """Without keys, a name that is not this machine's may be an attacker's that leads here."""

    def __init__(self) -> None:
        super().__init__(
            "The service has no keys and answers to this machine's own names alone;"
            " SELFCRAG_ALLOWED_HOSTS lists others."
        )


class OriginRefused(Refused):
    def __init__(self) -> None:
        super().__init__(
            "A page of another origin may not ask this; SELFCRAG_CORS_ORIGINS lists those that may."
        )


class KeysUnreadable(Refused):
    """Nobody is let in unseen."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("The keys cannot be read at the moment.")


class NotFound(ServiceError):
    """Unknown, or another owner's: nobody learns which."""


class ThreadBusy(ServiceError):
    """A run is under way on the thread."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"A run is under way on thread {thread_id}; wait for it, or cancel it.")


class StoreFailed(ServiceError):
    """Runs and threads cannot be read or written."""

    def __init__(self) -> None:
        super().__init__("The database of runs and threads cannot be used at the moment.")


class DocumentsProblem(ServiceError):
    """Documents cannot be brought in or removed, for the reason its status stands for."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)


class TooManyRuns(ServiceError):
    """As many runs as allowed are under way."""


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """As `application/problem+json`; one that passes tells when to try again."""
    passes = {"Retry-After": RETRY_AFTER_S} if problem.status in (409, 429, 503) else {}
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        status_code=problem.status,
        headers={**passes, **(headers or {})},
        media_type="application/problem+json",
    )


def internal_problem(run_id: str | None = None) -> Problem:
    """What a client learns of a fault of ours: no trace, only what to quote when reporting it."""
    where = f" Quote run {run_id} when reporting it." if run_id else ""
    return Problem(
        title="Internal error", status=500, detail=f"The service failed at this request.{where}"
    )


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(RequestValidationError, _invalid_body)
    app.add_exception_handler(InvalidRequest, _invalid_request)
    app.add_exception_handler(TooManyRuns, _too_many_runs)
    for kind in (NotFound, ThreadBusy, StoreFailed):
        app.add_exception_handler(kind, _of_store)
    app.add_exception_handler(SQLAlchemyError, _store_unusable)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(DocumentsProblem, _documents)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def response_to(request: Request, error: ServiceError) -> Response:
    """What the app's handler says, for those who stand before it."""
    for kind in type(error).__mro__:
        if handler := request.app.exception_handlers.get(kind):
            response: Response = await handler(request, error)
            return response
    raise error


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route's documentation."""
    model: type[BaseModel] = Problem
    return {
        status: {"model": model, "content": {"application/problem+json": {}}} for status in statuses
    }


async def _invalid_body(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()[:MOST_FIELD_ERRORS]
    return _unprocessable(
        [FieldError(pointer=_pointer(item), detail=message_of(item)) for item in found]
    )


async def _invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InvalidRequest)
    return _unprocessable(error.errors)


async def _too_many_runs(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TooManyRuns)
    return problem_response(Problem(title="Too many runs", status=503, detail=str(error)))


_STORE = {
    NotFound: ("Not found", 404),
    ThreadBusy: ("Thread busy", 409),
    StoreFailed: ("Store unavailable", 503),
}


async def _of_store(_: Request, error: Exception) -> JSONResponse:
    title, status = _STORE[type(error)]
    return problem_response(Problem(title=title, status=status, detail=str(error)))


async def _store_unusable(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s: the database failed", request.method, request.url.path, exc_info=error)
    return await _of_store(request, StoreFailed())


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    problem = Problem(title=error.status.phrase, status=error.status, detail=str(error))
    return problem_response(problem, error.headers)


async def _documents(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DocumentsProblem)
    return problem_response(error.problem)


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.BAD_REQUEST:  # only a body that cannot be parsed is one
        return _unprocessable([FieldError(pointer="#", detail="cannot be read as JSON in UTF-8")])
    title = HTTPStatus(error.status_code).phrase
    problem = Problem(title=title, status=error.status_code, detail=str(error.detail))
    return problem_response(problem, error.headers)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(internal_problem())


def _unprocessable(errors: Sequence[FieldError]) -> JSONResponse:
    told = "; ".join(f"{error.pointer}: {error.detail}" for error in errors[:3])
    return problem_response(
        Problem(title="Invalid request", status=422, detail=told, errors=list(errors))
    )


def message_of(item: Mapping[str, Any]) -> str:
    """What pydantic found wrong, without the name of its exception and without the value."""
    if isinstance(item.get("input"), bytes):
        return "is not JSON by its Content-Type; send application/json"
    return str(item["msg"]).removeprefix("Value error, ")


def wrong_fields(error: ValidationError) -> str:
    """Which fields are wrong and why, in a line, without their values."""
    items = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {message_of(item)}" for item in items)


def _pointer(item: Mapping[str, Any]) -> str:
    """`("body", "options", "upper")` -> `#/options/upper`; broken JSON has no place."""
    if item["type"] == "json_invalid":
        return "#"
    path = [str(part).replace("~", "~0").replace("/", "~1") for part in item["loc"][1:]]
    return "#/" + "/".join(path) if path else "#"
