"""What the service answers when it cannot: one tree, mapped to HTTP in one place.

ServiceError
 ├─ StartFailed        the service cannot start as configured (told on the terminal, no HTTP)
 ├─ InvalidRequest     422, names the fields
 └─ TooManyRuns        503 with Retry-After
"""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from app.schemas import FieldError, Problem

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


class TooManyRuns(ServiceError):
    """As many runs as allowed are under way."""


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """As `application/problem+json`; one that passes tells when to try again."""
    passes = {"Retry-After": RETRY_AFTER_S} if problem.status in (429, 503) else {}
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
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


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


def _pointer(item: Mapping[str, Any]) -> str:
    """`("body", "options", "upper")` -> `#/options/upper`; broken JSON has no place."""
    if item["type"] == "json_invalid":
        return "#"
    path = [str(part).replace("~", "~0").replace("/", "~1") for part in item["loc"][1:]]
    return "#/" + "/".join(path) if path else "#"
