"""LangGraph's checkpointer over the database of the settings.

Checkpoints are read without calling whatever they name: nobody who can write to the database
shall be able to run code in the service (`allowed_msgpack_modules=None`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool
from sqlalchemy.engine import URL

from app.store.engine import BUSY_TIMEOUT_MS

SETUP_LOCK = 7_350_242_120
MOST_CONNECTIONS = 5
_TRY_AGAIN_S = 0.1


@asynccontextmanager
async def open_checkpointer(url: URL) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Its tables exist; it may be used by any number of tasks."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    if url.get_backend_name() == "sqlite":
        # Each statement by itself: one that fails leaves no transaction open behind it.
        async with aiosqlite.connect(
            url.database or "", timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None
        ) as connection:
            await connection.execute("PRAGMA synchronous = NORMAL")
            saver = AsyncSqliteSaver(connection, serde=serde)
            await saver.setup()
            yield saver
        return
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    async with AsyncConnectionPool[AsyncConnection[DictRow]](
        address,
        min_size=1,
        max_size=MOST_CONNECTIONS,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        open=False,
    ) as pool:
        yield await _prepared(AsyncPostgresSaver(pool, serde=serde), pool)


async def _prepared(
    saver: AsyncPostgresSaver, pool: AsyncConnectionPool[AsyncConnection[DictRow]]
) -> AsyncPostgresSaver:
    """One process at a time creates the tables.

    The others try again and again: one that waits for the lock would be waited for in turn by the
    indexes, which are built concurrently.
    """
    async with pool.connection() as connection:
        while True:
            found = await connection.execute(
                "SELECT pg_try_advisory_lock(%s) AS ours", [SETUP_LOCK]
            )
            if (row := await found.fetchone()) and row["ours"]:
                break
            await asyncio.sleep(_TRY_AGAIN_S)
        try:
            await saver.setup()
        finally:
            await connection.execute("SELECT pg_advisory_unlock(%s)", [SETUP_LOCK])
    return saver
