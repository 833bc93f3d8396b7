"""MCP over streamable HTTP, behind the same keys and the same checks of Host and Origin."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from app.composition.parts import Parts
from app.extensions.mcp.server import mcp_server
from app.storage.api_keys import Caller

PATH = "/mcp"
MAX_SESSIONS = 1000
IDLE_S = 600.0
"""After so long without a request a session is forgotten; its client opens another."""

# One line for every session is told by the access log, too, and session ids are secrets.
logging.getLogger("mcp.server").setLevel(logging.WARNING)


class McpSessions:
    """The sessions of all clients; protocol 2026-07-28 needs none, earlier ones do."""

    def __init__(self, parts: Parts) -> None:
        self._manager = StreamableHTTPSessionManager(
            mcp_server(parts), max_sessions=MAX_SESSIONS, session_idle_timeout=IDLE_S
        )
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Ends all sessions and with them their streams, which would hold up a stop."""
        self._ending.set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """In a task of its own: its task group must be left by the task that has entered it."""
        started = asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                started.set()
                await self._ending.wait()

        running = asyncio.create_task(run(), name="mcp-sessions")
        await started.wait()
        try:
            yield
        finally:
            self.end()
            await running

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A session is its opener's alone: the owner is who the SDK takes for its user."""
        caller: Caller = scope.get("state", {}).get("caller") or Caller()
        token = AccessToken(token="", client_id=caller.owner, scopes=sorted(caller.scopes))
        await self._manager.handle_request(
            {**scope, "user": AuthenticatedUser(token)}, receive, send
        )


class McpEndpoint:
    """The route; its sessions are those that the app's lifespan has opened."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sessions: McpSessions = Request(scope).app.state.mcp
        await sessions.serve(scope, receive, send)
