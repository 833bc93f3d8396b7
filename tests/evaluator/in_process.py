"""A worker in the process of its test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
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
