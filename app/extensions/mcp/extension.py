"""The Model Context Protocol over HTTP as an extension."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.routing import Route

from app.extension import ServiceExtension


class Mcp(ServiceExtension):
    is_server = True

    def add_to(self, app: FastAPI) -> None:
        from app.extensions.mcp.http import PATH, McpEndpoint

        app.router.routes.append(Route(PATH, McpEndpoint()))

    @asynccontextmanager
    async def opened(self, app: FastAPI) -> AsyncIterator[None]:
        from app.extensions.mcp.http import McpSessions

        app.state.mcp = McpSessions(app.state.parts)
        async with app.state.mcp.open():
            yield

    def stop(self, app: FastAPI) -> None:
        app.state.mcp.end()


extension = Mcp()
