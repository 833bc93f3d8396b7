"""Middleware: authentication and CORS, and limits on the size and time of request bodies.

With API keys every request needs one, but for images at addresses that a key has signed. Without
any, whoever reaches the service may ask; but pages in a browser reach it, too: by a name that
resolves to loopback (DNS rebinding) or by a request across origins. Both are refused before a body
is read.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import errors
from app.api.problems import error_response, problem_response
from app.schemas.ask import MAX_IMAGE_CHARS, Problem
from app.settings import Settings
from app.storage.api_keys import Caller, KeyRing
from app.storage.database import open_engine
from app.storage.signed_addresses import SignedQuery

MAX_BODY_BYTES = 1_000_000
TOO_LARGE = (
    f"The body is larger than {MAX_BODY_BYTES:,} bytes. An image in it is a data URL of at most"
    f" {MAX_IMAGE_CHARS:,} characters, and images of earlier turns count as well."
)
BODY_WITHIN_S = 30.0
MIN_BYTES_PER_S = 10_000
LINGER_S = 10.0
"""For what is left of a body whose request is answered already."""
TOO_SLOW = f"The body did not arrive within {BODY_WITHIN_S:g} s, or came too slowly."
_OPEN = {"/", "/docs", "/handbook", "/favicon.ico"}
_OPEN_BELOW = ("/health/", "/page/", "/docs/", "/handbook/")
SIGNED_BELOW = "/images/"
_SCOPE_OF = {"documents": "documents", "collections": "documents", "metrics": "metrics"}
_SAFE = {"GET", "HEAD", "OPTIONS"}


def is_loopback(host: str) -> bool:
    """Whether a name or address leads to this machine alone."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def check_address(settings: Settings) -> None:
    """Others may reach the service only where keys or a proxy's are asked. Raises StartFailed."""
    if settings.allow_anonymous or is_loopback(settings.host):
        return
    async with open_engine(settings) as engine:
        if not await KeyRing(engine).are_kept():
            raise errors.StartFailed(
                f"there is no key, and {settings.host} can be reached by other machines: make one"
                " with `selfcrag keys add OWNER`, or set SELFCRAG_ALLOW_ANONYMOUS=true where a"
                " proxy asks who they are."
            )


class Authentication:
    """Finds out who asks, leaves it in `request.state.caller`, and refuses everyone else."""

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], origins: Collection[str], anonymous: bool
    ) -> None:
        self._app, self._origins, self._anonymous = app, set(origins), anonymous
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._caller(scope)
        except errors.AccessDenied as error:
            await error_response(scope, error)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in _OPEN or path.startswith(_OPEN_BELOW):
            return Caller()
        keys: KeyRing = scope["app"].state.keys
        headers = Headers(scope=scope)
        if not await keys.are_kept():
            self._check_browser(scope["method"], headers)
            return Caller()
        secret = _secret(headers)
        signed = None if secret else _signed(scope, path)
        caller = await (keys.signer_of(path, signed) if signed else keys.holder(secret))
        needed = _SCOPE_OF.get(path.split("/")[1], "ask")
        may_list = path == "/collections" and scope["method"] in _SAFE and "ask" in caller.scopes
        if needed not in caller.scopes and not may_list:
            raise errors.ScopeMissing(needed)
        return caller

    def _check_browser(self, method: str, headers: Headers) -> None:
        host = headers.get("host", "")
        name = _name_of(host)
        known = is_loopback(name) or name in self._hosts or host.lower() in self._hosts
        if not known and not (self._anonymous and not self._hosts):
            raise errors.HostRefused
        origin = headers.get("origin", "")
        if method in _SAFE or {origin, "*"} & self._origins:
            return
        site = headers.get("sec-fetch-site")
        if site is None:  # no browser, or one that cannot tell where a request comes from
            is_ours = not origin or urlsplit(origin).netloc.lower() == host.lower()
        else:
            is_ours = site in {"same-origin", "none"}
        if not is_ours:
            raise errors.OriginRefused


def _name_of(host: str) -> str:
    """A Host header without its port and brackets; empty where it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _secret(headers: Headers) -> str:
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return secret.strip()
    return headers.get("x-api-key", "").strip()


def _signed(scope: Scope, path: str) -> SignedQuery | None:
    """What an image is asked for with in place of a key."""
    if scope["method"] != "GET" or not path.startswith(SIGNED_BELOW):
        return None
    return SignedQuery.of(scope["query_string"].decode("latin-1"))


def add_authentication(app: FastAPI, settings: Settings) -> None:
    """With CORS before it for the origins that the settings list."""
    app.add_middleware(
        Authentication,
        hosts=settings.allowed_hosts,
        origins=settings.cors_origins,
        anonymous=settings.allow_anonymous,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],  # clients send their own, as x-stainless-os; the origin decides
            expose_headers=["retry-after", "x-request-id", "x-run-id", "mcp-session-id"],
        )


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


class BodyTimeout:
    """A body that does not come within BODY_WITHIN_S is answered with 408.

    A long one has MIN_BYTES_PER_S more time. Only the waiting for the client counts. What an answer
    has left unread is read before it ends: a connection that is closed with bytes unread is reset,
    and its answer is lost with it (RFC 9112, section 9.6).
    """

    def __init__(self, app: ASGIApp, within_s: float = BODY_WITHIN_S) -> None:
        self._app, self._within_s = app, within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        left_s = self._within_s
        is_whole = not {b"content-length", b"transfer-encoding"} & headers.keys()

        async def timed() -> Message:
            nonlocal left_s, is_whole
            if is_whole:  # what comes now is that the client leaves
                return await receive()
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            try:
                async with asyncio.timeout(left_s):
                    message = await receive()
            except TimeoutError:
                left_s = 0.0
                raise HTTPException(408, TOO_SLOW, {"Connection": "close"}) from None
            left_s -= loop.time() - began_s
            left_s += len(message.get("body", b"")) / MIN_BYTES_PER_S
            is_whole = not message.get("more_body", False)
            return message

        async def drained(message: Message) -> None:
            if is_whole or message["type"] != "http.response.body" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            with suppress(TimeoutError, HTTPException):
                async with asyncio.timeout(LINGER_S):
                    while not is_whole:
                        await timed()
            await send({"type": "http.response.body"})

        await self._app(scope, timed, drained)
