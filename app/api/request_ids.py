"""Request ids: each request has one, told in its response and in every line it logs."""

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.observability.logging import request_fields, traceparent

HEADER = "X-Request-ID"
_SANE = re.compile(r"[\x21-\x7e]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


def request_id_of(scope: Scope) -> str:
    """Empty where no request id was given out."""
    return str(scope.get("state", {}).get("request_id", ""))


class RequestIds:
    """Takes the id that a client or a proxy sent, where it is at most 128 visible characters.

    Logs also tell the trace id of a `traceparent` (W3C Trace Context).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sent = headers.get(HEADER, "")
        request_id = sent if _SANE.fullmatch(sent) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        fields = {"request_id": request_id}
        trace = _TRACEPARENT.fullmatch(headers.get("traceparent", "").strip())
        if trace:
            fields["trace_id"] = trace[1]

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        before = request_fields.set(fields)
        parent = traceparent.set(trace[0] if trace else "")
        await self._app(scope, receive, named)
        # Not after a failure: that is logged further out.
        request_fields.reset(before)
        traceparent.reset(parent)
