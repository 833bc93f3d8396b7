"""Bounds on what a client may send."""

from collections.abc import Collection
from http import HTTPStatus

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import problem_response
from app.schemas.ask import Problem


class BodyLimit:
    """Answers 413 to a body over `max_bytes`, announced or not, without holding it in memory.

    Bodies posted to `except_to` have bounds of their own.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, except_to: Collection[str] = ()) -> None:
        self._app, self._max_bytes, self._except_to = app, max_bytes, frozenset(except_to)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._except_to:
            await self._app(scope, receive, send)
            return
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._max_bytes:
            problem = Problem(title=HTTPStatus(413).phrase, status=413, detail=self._detail)
            await problem_response(problem)(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise HTTPException(413, self._detail)
            return message

        await self._app(scope, counted, send)

    @property
    def _detail(self) -> str:
        return f"The body is larger than {self._max_bytes:,} bytes."


def limit_bodies(app: FastAPI, max_bytes: int, except_to: Collection[str] = ()) -> None:
    app.add_middleware(BodyLimit, max_bytes=max_bytes, except_to=except_to)
