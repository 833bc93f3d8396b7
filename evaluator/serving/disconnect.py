"""Cancel in-flight work when the client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

Answer = TypeVar("Answer")


async def while_connected(connection: Request, work: Coroutine[None, None, Answer]) -> Answer:
    """The answer; a client that leaves before it is there cancels the work.

    The body must have been read: the next message of the connection is its end.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.ensure_future(connection.receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HTTPException(499, "The client left before its answer was there.")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
