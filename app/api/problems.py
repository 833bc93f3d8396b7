"""Error responses: exceptions as RFC 9457 problem details, or as an extension has them."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import Scope

from app.api.languages import in_language, language_of
from app.api.request_ids import HEADER, request_id_of
from app.errors import InvalidRequest, ServiceError, StoreFailed, internal_problem, message_of
from app.extension import ServiceExtension
from app.schemas.ask import FieldError, Problem

log = logging.getLogger(__name__)

MAX_FIELD_ERRORS = 20
RETRY_AFTER_S = "2"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
FILES = ("GET", "HEAD")
"""Of what is mounted: the page."""
DETAILS = {
    400: "One question has one answer: n must be 1.",
    401: "Send a key as `Authorization: Bearer KEY`.",
    403: "This key does not allow it: the scope 'documents' is missing.",
    404: "There is no such thing, or it is another owner's.",
    409: "A run is under way on thread conversation-1; wait for it, or cancel it.",
    413: "The body is larger than 1,000,000 bytes.",
    422: "Input should be a valid number",
    500: "The service failed at this request.",
    429: "The quota of 60 runs per minute is used up; try again in 12 s.",
    503: "64 runs are under way; try again in a moment.",
}
"""Examples, for the documentation."""


def problem_response(
    scope: Scope, problem: Problem, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """In the interface's form and the client's language; says when to retry what passes."""
    problem = in_language(problem, language_of(scope))
    passes = {"Retry-After": RETRY_AFTER_S} if problem.status in (409, 429, 503) else {}
    # Faults of ours are answered further out than where responses get their id.
    named = {HEADER: request_id} if (request_id := request_id_of(scope)) else {}
    all_headers = {**passes, **named, **(headers or {})}
    # Wherever the app is mounted.
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    extensions: list[ServiceExtension] = scope["app"].state.extensions
    for each in extensions:
        if each.errors_below and f"{path}/".startswith(f"{each.errors_below}/"):
            return JSONResponse(each.error_body(problem), problem.status, all_headers)
    body = problem.model_dump(exclude_none=True)
    return JSONResponse(body, problem.status, all_headers, "application/problem+json")


def error_response(scope: Scope, error: ServiceError) -> JSONResponse:
    return problem_response(scope, error.problem, error.headers)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route's documentation; 401 and 403 are those of every route."""
    return {status: _documented(status) for status in (401, 403, *statuses)}


def _documented(status: int) -> dict[str, Any]:
    title = "Invalid request" if status == 422 else HTTPStatus(status).phrase
    problem = Problem(title=title, status=status, detail=DETAILS[status])
    if status == 422:
        problem.errors = [FieldError(pointer="#/options/upper", detail=DETAILS[422])]
        problem.detail = f"#/options/upper: {DETAILS[422]}"
    example = problem.model_dump(exclude_none=True)
    schema = {"$ref": "#/components/schemas/Problem"}
    content = {"application/problem+json": {"schema": schema, "example": example}}
    return {"description": title, "content": content}


def add_error_handlers(app: FastAPI) -> None:
    for kind in (ServiceError, RequestValidationError, SQLAlchemyError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    """Whatever a route raised, as its problem; faults of ours are logged."""
    match error:
        case ServiceError():
            return error_response(request.scope, error)
        case RequestValidationError():
            invalid = _invalid(error.errors()[:MAX_FIELD_ERRORS])
            return error_response(request.scope, invalid)
        case HTTPException(status_code=HTTPStatus.BAD_REQUEST):
            # Only a body that cannot be parsed is one.
            invalid = InvalidRequest("#", "cannot be read as JSON in UTF-8")
            return error_response(request.scope, invalid)
        case HTTPException():
            status = error.status_code
            title = HTTPStatus(status).phrase
            problem = Problem(title=title, status=status, detail=str(error.detail))
            allow = (
                {"Allow": _methods_of(request)} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
            )
            return problem_response(request.scope, problem, {**(error.headers or {}), **allow})
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    is_store = isinstance(error, SQLAlchemyError)
    problem = StoreFailed().problem if is_store else internal_problem()
    return problem_response(request.scope, problem)


def _methods_of(request: Request) -> str:
    """Those of all routes of the path: a route tells its own alone."""
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    methods = [
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]
    return ", ".join(methods or FILES)


def _invalid(items: Sequence[Mapping[str, Any]]) -> InvalidRequest:
    first, *others = ((_pointer(item), message_of(item)) for item in items)
    return InvalidRequest(*first, *(FieldError(pointer=p, detail=d) for p, d in others))


def _pointer(item: Mapping[str, Any]) -> str:
    """`("body", "options", "upper")` -> `#/options/upper`; broken JSON has no place."""
    if item["type"] == "json_invalid":
        return "#"
    path = [str(part).replace("~", "~0").replace("/", "~1") for part in item["loc"][1:]]
    return "#/" + "/".join(path) if path else "#"
