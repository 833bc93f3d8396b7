"""LangGraph's checkpointer over the database of the settings, used from threads.

Checkpoints are read without calling whatever they name: nobody who can write to the database
shall be able to run code in the service (`allowed_msgpack_modules=None`).
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg import Connection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool
from sqlalchemy.engine import URL

from app.storage.database import BUSY_TIMEOUT_MS

SETUP_LOCK = 7_350_242_120
MOST_CONNECTIONS = 5
_TRY_AGAIN_S = 0.1


@contextmanager
def checkpointer(url: URL) -> Iterator[BaseCheckpointSaver[str]]:
    """Its tables exist; to be opened, used and closed in threads, for it waits for the database."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    if url.get_backend_name() == "sqlite":
        # Each statement by itself: one that fails leaves no transaction open behind it.
        connection = sqlite3.connect(
            url.database or "",
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        with closing(connection):
            connection.execute("PRAGMA synchronous = NORMAL")
            saver = SqliteSaver(connection, serde=serde)
            saver.setup()
            yield saver
        return
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with ConnectionPool[Connection[DictRow]](
        address,
        min_size=1,
        max_size=MOST_CONNECTIONS,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        open=False,
    ) as pool:
        yield _prepared(PostgresSaver(pool, serde=serde), pool)


def _prepared(saver: PostgresSaver, pool: ConnectionPool[Connection[DictRow]]) -> PostgresSaver:
    """One process at a time creates the tables.

    The others try again and again: one that waits for the lock would be waited for in turn by the
    indexes, which are built concurrently.
    """
    with pool.connection() as connection:
        while True:
            found = connection.execute("SELECT pg_try_advisory_lock(%s) AS ours", [SETUP_LOCK])
            if (row := found.fetchone()) and row["ours"]:
                break
            time.sleep(_TRY_AGAIN_S)
        try:
            saver.setup()
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", [SETUP_LOCK])
    return saver
