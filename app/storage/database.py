"""What lasts: one SQL database, SQLite beside the index unless the settings name a PostgreSQL.

Modules that keep something add their tables to `metadata`; `open_engine` creates what is missing.
Times are Unix seconds in UTC (`Float`), JSON is text.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.errors import StartFailed
from app.settings import StateSettings

metadata = MetaData()

FILE = "selfcrag.db"
BUSY_TIMEOUT_MS = 10_000
FORGOTTEN_AT_ONCE = 200
"""Rows that are removed together: whoever wants to write waits for one of these at most."""
MAX_SKEW_S = 5.0
"""Processes believe each other's times of day, and are taken for gone after a few times this."""
CREATION_LOCK = 7_350_242_119
"""Any number, the same in all processes: one of them creates the tables."""


def now() -> float:
    return time.time()


def database_url(settings: StateSettings) -> URL:
    """The database the settings choose, by its asynchronous driver. Raises StartFailed."""
    chosen = settings.database_url.get_secret_value()
    if not chosen:
        return URL.create("sqlite+aiosqlite", database=str(settings.data_dir / FILE))
    try:
        url = make_url(chosen)
    except ArgumentError:
        raise StartFailed("SELFCRAG_DATABASE_URL is no address of a database.") from None
    match url.get_backend_name():
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+psycopg")
        case "sqlite":
            return url.set(drivername="sqlite+aiosqlite")
        case other:
            raise StartFailed(
                f"SELFCRAG_DATABASE_URL: {other} is not supported; use postgresql or sqlite."
            )


@asynccontextmanager
async def open_engine(settings: StateSettings) -> AsyncIterator[AsyncEngine]:
    """The database with every table of `metadata`. Raises StartFailed where it cannot be used."""
    url = database_url(settings)
    if url.get_backend_name() == "sqlite" and url.database:
        folder = Path(url.database).parent
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    engine = create_async_engine(url, pool_pre_ping=url.get_backend_name() != "sqlite")
    if url.get_backend_name() == "sqlite":
        _as_sqlite_should_be(engine.sync_engine)
    try:
        try:
            async with engine.begin() as connection:
                if url.get_backend_name() != "sqlite":
                    await _assert_same_time(connection)
                    await connection.execute(
                        text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": CREATION_LOCK}
                    )
                await connection.run_sync(metadata.create_all)
        except (SQLAlchemyError, OSError) as error:
            raise StartFailed(_unusable(url, error)) from error
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection that takes no lock: each statement sees what is committed."""
    async with engine.connect() as connection:
        yield await connection.execution_options(isolation_level="AUTOCOMMIT")


def writing_engine(url: URL) -> Engine:
    """The same database for a thread of its own: there a batch is one switch of threads."""
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url.set(drivername="sqlite+pysqlite"))
    _as_sqlite_should_be(engine)
    return engine


def _as_sqlite_should_be(engine: Engine) -> None:
    """Readers beside one writer; a transaction asks for its lock at once and waits its turn.

    The driver's own transactions begin at the first write: what was read before it could be
    outdated by then, and SQLite refuses at once instead of waiting.
    """

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql("BEGIN IMMEDIATE")


async def _assert_same_time(connection: AsyncConnection) -> None:
    """Raises StartFailed where this machine's clock is not the database's."""
    there = await connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())"))
    if abs(skew_s := now() - float(there or 0)) > MAX_SKEW_S:
        raise StartFailed(
            f"the clock of this machine is {skew_s:+.0f} s from that of the database: set both by "
            "the same time server, or services would take each other for gone."
        )


def _unusable(url: URL, error: Exception) -> str:
    """Where and why, without the password."""
    why = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    return f"the database {url.render_as_string()} cannot be used ({why})."
