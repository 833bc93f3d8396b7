"""A worker in the process of its test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI


@asynccontextmanager
async def asking(app: FastAPI, *, is_raising: bool = True) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the worker while the worker is up."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=is_raising)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://evaluator") as http,
    ):
        yield http


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """The worker's address on loopback, which answers as soon as the worker is up."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    serving = asyncio.create_task(server.serve([listening]))
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    await serving
