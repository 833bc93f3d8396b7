"""Problems as OpenAI's clients read them: `{"error": {message, type, param, code}}` below /v1."""

from collections.abc import Awaitable, Mapping
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import ServiceError, internal_problem
from app.schemas.ask import Problem
from app.schemas.openai import OpenAIError, OpenAIErrorBody

PREFIX = "/v1"
PROBLEM = b"application/problem+json"
KINDS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    409: ("invalid_request_error", "conflict"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "service_unavailable"),
}
CLIENTS_FAULT = ("invalid_request_error", "invalid_request")
OUR_FAULT = ("server_error", "internal_error")


class NotOffered(ServiceError):
    """What OpenAI's interface allows to ask and this service does not have."""

    def __init__(self, status: int, message: str, *, param: str, code: str) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


def error_of(problem: Problem) -> dict[str, Any]:
    """The problem as the value of `error`; `param` is its first field, `options.upper`."""
    kind, code = KINDS.get(problem.status, CLIENTS_FAULT if problem.status < 500 else OUR_FAULT)
    pointer = problem.errors[0].pointer if problem.errors else ""
    param = pointer.removeprefix("#").removeprefix("/").replace("/", ".")
    return _body(problem.detail, kind, param, code)


def error_response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(error_of(problem), status_code=problem.status, headers=headers)


def speak_openai_below_v1(app: FastAPI) -> None:
    """To be added last: whatever refuses a request further in is then put into this form, too."""
    app.add_exception_handler(NotOffered, _not_offered)
    app.add_middleware(ProblemsAsOpenAI)
    unexpected = app.exception_handlers[Exception]

    async def told(request: Request, error: Exception) -> Response:
        """Beyond all middleware, where faults of ours end up."""
        response = await cast("Awaitable[Response]", unexpected(request, error))
        return error_response(internal_problem()) if _is_below(request.scope) else response

    app.add_exception_handler(Exception, told)


async def _not_offered(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, NotOffered)
    body = _body(str(error), CLIENTS_FAULT[0], error.param, error.code)
    return JSONResponse(body, status_code=error.status)


def _body(message: str, kind: str, param: str, code: str) -> dict[str, Any]:
    error = OpenAIError(message=message, type=kind, param=param or None, code=code)
    return OpenAIErrorBody(error=error).model_dump()


class ProblemsAsOpenAI:
    """Rewrites problem details on their way out; they are small and sent in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_below(scope):
            await self._app(scope, receive, send)
            return
        held: Message | None = None

        async def rewritten(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_problem(message):
                held = message
            elif held is not None and message["type"] == "http.response.body":
                problem = Problem.model_validate_json(message["body"])
                await _send(error_response(problem), held, scope, receive, send)
            else:
                await send(message)

        await self._app(scope, receive, rewritten)


async def _send(
    response: JSONResponse, start: Message, scope: Scope, receive: Receive, send: Send
) -> None:
    """With the headers the problem had, such as Retry-After and WWW-Authenticate."""
    for name, value in MutableHeaders(raw=start["headers"]).items():
        response.headers.setdefault(name, value)
    await response(scope, receive, send)


def _is_below(scope: Scope) -> bool:
    """Wherever the app is mounted."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def _is_problem(message: Message) -> bool:
    kinds = (value for name, value in message.get("headers", ()) if name == b"content-type")
    return any(value.startswith(PROBLEM) for value in kinds)
