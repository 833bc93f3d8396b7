"""The limit on request bodies: 413 beyond it, also where no length is announced."""

from collections.abc import Collection
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem_response
from app.schemas.ask import Problem

MAX_BODY_BYTES = 1_000_000
TOO_LARGE = f"The body is larger than {MAX_BODY_BYTES:,} bytes."


class BodyLimit:
    """Counts bodies as they come, without holding them in memory.

    Those posted to `except_to` have bounds of their own.
    """

    def __init__(self, app: ASGIApp, except_to: Collection[str] = ()) -> None:
        self._app, self._except_to = app, frozenset(except_to)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._except_to:
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            problem = Problem(title=HTTPStatus(413).phrase, status=413, detail=TOO_LARGE)
            await problem_response(scope, problem)(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise HTTPException(413, TOO_LARGE)
            return message

        await self._app(scope, counted, send)
