"""Error responses: exceptions as RFC 9457 problem details (`application/problem+json`)."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from app.errors import InvalidRequest, ServiceError, StoreFailed, internal_problem, message_of
from app.schemas.ask import FieldError, Problem

log = logging.getLogger(__name__)

MAX_FIELD_ERRORS = 20
RETRY_AFTER_S = "2"


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """One that passes tells when to try again."""
    passes = {"Retry-After": RETRY_AFTER_S} if problem.status in (409, 429, 503) else {}
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        status_code=problem.status,
        headers={**passes, **(headers or {})},
        media_type="application/problem+json",
    )


def error_response(error: ServiceError) -> JSONResponse:
    return problem_response(error.problem, error.headers)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route's documentation."""
    model: type[BaseModel] = Problem
    return {
        status: {"model": model, "content": {"application/problem+json": {}}} for status in statuses
    }


def add_error_handlers(app: FastAPI) -> None:
    for kind in (ServiceError, RequestValidationError, SQLAlchemyError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    """Whatever a route raised, as its problem; faults of ours are logged."""
    match error:
        case ServiceError():
            return error_response(error)
        case RequestValidationError():
            return error_response(_invalid(error.errors()[:MAX_FIELD_ERRORS]))
        case HTTPException(status_code=HTTPStatus.BAD_REQUEST):
            # Only a body that cannot be parsed is one.
            return error_response(InvalidRequest("#", "cannot be read as JSON in UTF-8"))
        case HTTPException():
            status = error.status_code
            title = HTTPStatus(status).phrase
            problem = Problem(title=title, status=status, detail=str(error.detail))
            return problem_response(problem, error.headers)
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if isinstance(error, SQLAlchemyError):
        return error_response(StoreFailed())
    return problem_response(internal_problem())


def _invalid(items: Sequence[Mapping[str, Any]]) -> InvalidRequest:
    first, *others = ((_pointer(item), message_of(item)) for item in items)
    return InvalidRequest(*first, *(FieldError(pointer=p, detail=d) for p, d in others))


def _pointer(item: Mapping[str, Any]) -> str:
    """`("body", "options", "upper")` -> `#/options/upper`; broken JSON has no place."""
    if item["type"] == "json_invalid":
        return "#"
    path = [str(part).replace("~", "~0").replace("/", "~1") for part in item["loc"][1:]]
    return "#/" + "/".join(path) if path else "#"
