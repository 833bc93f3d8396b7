"""Database: SQLite beside the index unless the settings name a PostgreSQL.

Modules that keep something add their tables to `metadata`; `open_engine` creates what is missing.
Times are Unix seconds in UTC (`Float`), JSON is text. What runs tell is written in batches, beside
them: a run never waits for a disk.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.errors import StartFailed
from app.settings import StateSettings
from app.state_folder import make_private, what_is_unfinished

log = logging.getLogger(__name__)
metadata = sa.MetaData()

FILE = "selfcrag.db"
BUSY_TIMEOUT_MS = 10_000
FORGOTTEN_AT_ONCE = 200
"""Rows that are removed together: whoever wants to write waits for one of these at most."""
MAX_SKEW_S = 5.0
"""Processes believe each other's times of day, and are taken for gone after a few times this."""
CREATION_LOCK = 7_350_242_119
"""Any number, the same in all processes: one of them creates the tables."""
BATCH_S = 0.05
"""Longest time that what happened waits to be written."""
KNOWN_EVERYWHERE_S = 2 * BATCH_S
"""After it every process knows what happened, unless the database is slow."""
MAX_WAITING = 100_000
MAX_AT_ONCE = 5_000
RETRY_S, MAX_RETRY_S = 1.0, 30.0
"""The pause after a failure, which grows with each."""

Row = Mapping[str, Any]
Transaction = Callable[[sa.Connection], None]
Entry = tuple[sa.Executable | Transaction, Row]
NO_VALUES: Row = MappingProxyType({})

_UNFIT = (IntegrityError, DataError, ValueError, TypeError, ArithmeticError)
"""The database refuses such a row, or its driver cannot say it: no second try will help."""


def now() -> float:
    return time.time()


def database_url(settings: StateSettings) -> sa.URL:
    """The database the settings choose, by its asynchronous driver. Raises StartFailed."""
    chosen = settings.database_url.get_secret_value()
    if not chosen:
        return sa.URL.create("sqlite+aiosqlite", database=str(settings.data_dir / FILE))
    try:
        url = sa.make_url(chosen)
    except ArgumentError:
        raise StartFailed("SELFCRAG_DATABASE_URL is not the address of a database.") from None
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
    if unfinished := what_is_unfinished(settings.data_dir):
        raise StartFailed(f"{unfinished}.")
    engine = create_async_engine(
        url, hide_parameters=True, pool_pre_ping=url.get_backend_name() != "sqlite"
    )
    if url.get_backend_name() == "sqlite":
        _as_sqlite_should_be(engine.sync_engine)
    try:
        try:
            if url.get_backend_name() == "sqlite" and url.database not in {None, "", ":memory:"}:
                await asyncio.to_thread(_make_file, Path(str(url.database)))
            async with engine.begin() as connection:
                if url.get_backend_name() != "sqlite":
                    await _assert_same_time(connection)
                    await connection.execute(
                        sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": CREATION_LOCK}
                    )
                await connection.run_sync(metadata.create_all)
        except (SQLAlchemyError, OSError) as error:
            raise StartFailed(unusable(url, error)) from error
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection that takes no lock: each statement sees what is committed."""
    async with engine.connect() as connection:
        yield await connection.execution_options(isolation_level="AUTOCOMMIT")


async def rows_of(engine: AsyncEngine, query: sa.Executable) -> Sequence[Row]:
    """All that the query finds, by the names of the columns; without a lock."""
    async with reading(engine) as connection:
        return cast("Sequence[Row]", (await connection.execute(query)).mappings().all())


async def values_of(engine: AsyncEngine, query: sa.Executable) -> Sequence[Any]:
    """The first column of all that the query finds; without a lock."""
    async with reading(engine) as connection:
        return (await connection.execute(query)).scalars().all()


async def execute(engine: AsyncEngine, statement: sa.Executable, row: Row | None = None) -> int:
    """Executes one statement as a transaction; says how many rows it changed."""
    async with engine.begin() as connection:
        return (await connection.execute(statement, row)).rowcount


def writing_engine(url: sa.URL) -> sa.Engine:
    """The same database for a thread of its own: there a batch is one switch of threads."""
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, pool_pre_ping=True)
    engine = sa.create_engine(url.set(drivername="sqlite+pysqlite"))
    _as_sqlite_should_be(engine)
    return engine


def _make_file(file: Path) -> None:
    """Empty and with mode 600, which SQLite's other files of it take over."""
    make_private(file.parent)
    file.touch(mode=0o600)


def _as_sqlite_should_be(engine: sa.Engine) -> None:
    """Readers beside one writer; a transaction asks for its lock at once and waits its turn.

    The driver's own transactions begin at the first write: what was read before it could be
    outdated by then, and SQLite refuses at once instead of waiting.
    """

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql("BEGIN IMMEDIATE")


async def _assert_same_time(connection: AsyncConnection) -> None:
    """Raises StartFailed where this machine's clock is not the database's."""
    there = await connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())"))
    if abs(skew_s := now() - float(there or 0)) > MAX_SKEW_S:
        raise StartFailed(
            f"the clock of this machine is {skew_s:+.0f} s from that of the database: set both by "
            "the same time server, or services would take each other for gone."
        )


def unusable(url: sa.URL, error: Exception) -> str:
    """Where, why and the way out, in one line without the password."""
    why = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    place = url.set(username=None, password=None, query={}).render_as_string()
    if url.get_backend_name() != "sqlite":
        return f"the database {place} cannot be used ({why}): see to it that its server runs."
    if "locked" in why:
        remedy = "another program holds it: try again when that has ended"
    elif "malformed" in why or "not a database" in why or "disk I/O" in why:
        remedy = (
            "it is damaged: stop the service and run `selfcrag restore FROM --force` with a backup,"
            " or move the file away to begin without keys, runs and conversations; documents stay"
        )
    else:
        remedy = (
            "see to it that its folder may be written and the disk has room, or name another folder"
            " by SELFCRAG_DATA_DIR"
        )
    return f"the database {place} cannot be used ({why}); {remedy}."


class BatchWriter:
    """Writes in order, from a task of its own; `add` never waits.

    Entries are counted: `_added` are all there ever were, `_settled` those written or given up.
    """

    def __init__(self, url: sa.URL) -> None:
        self._engine, self._loop = writing_engine(url), asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self.waiting: deque[Entry] = deque()
        self._added = self._settled = 0
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task = asyncio.create_task(self._write_on(), name="writer")

    def add(self, write: sa.Executable | Transaction, row: Row = NO_VALUES) -> None:
        """Executes a statement with the row soon, after all that was added before.

        Or what must be written as one, which is called again where that fails. Where the database
        is away for long, what waits longest is given up.
        """
        if len(self.waiting) >= MAX_WAITING:
            self.waiting.popleft()
            self._settled += 1
        self.waiting.append((write, row))
        self._added += 1
        self._some.set()

    async def flush(self) -> None:
        """Writes what was added until now, not what comes meanwhile.

        Raises SQLAlchemyError or OSError where it cannot be written; it is tried again then.
        """
        # Half a transaction is none: whoever stops waiting for it does not stop it.
        await asyncio.shield(self._flush(self._added))

    async def _flush(self, until: int) -> None:
        async with self._writing:
            while (left := min(until - self._settled, len(self.waiting))) > 0:
                batch = [self.waiting.popleft() for _ in range(min(MAX_AT_ONCE, left))]
                try:
                    await self._write(batch)
                except Exception:
                    self.waiting.extendleft(reversed(batch))
                    raise
                self._settled += len(batch)

    async def _write(self, batch: Sequence[Entry]) -> None:
        try:
            await self._loop.run_in_executor(self._thread, self._commit, batch)
        except _UNFIT as error:
            if len(batch) == 1:
                log.error("a row was given up, for the database refuses it", exc_info=error)
                return
            for entry in batch:
                await self._write([entry])

    def _commit(self, batch: Sequence[Entry]) -> None:
        with self._engine.begin() as connection:
            # Neighbours of one statement as one execution; their order stays.
            for _, entries in groupby(batch, key=lambda entry: id(entry[0])):
                statements, rows = zip(*entries, strict=True)
                if isinstance(statements[0], sa.Executable):
                    connection.execute(statements[0], list(rows))
                else:
                    statements[0](connection)

    async def look(self, query: sa.Select[Any]) -> Sequence[Any]:
        """The first column of what is found after all batches before, for those who look often."""
        return await self._loop.run_in_executor(self._thread, self._look, query)

    def _look(self, query: sa.Select[Any]) -> Sequence[Any]:
        with self._engine.connect() as connection:
            reading = connection.execution_options(isolation_level="AUTOCOMMIT")
            return reading.execute(query).scalars().all()

    async def _write_on(self) -> None:
        pause_s = RETRY_S
        while True:
            await self._some.wait()
            await asyncio.sleep(BATCH_S)
            self._some.clear()
            try:
                await self.flush()
                pause_s = RETRY_S
            except Exception as error:
                # Where it fails is told once: a full disk stays full for hours.
                log.error(
                    "%d rows wait for the database: %s",
                    *(len(self.waiting), str(error).partition("\n")[0]),
                    exc_info=pause_s == RETRY_S,
                )
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_RETRY_S)
                self._some.set()

    async def aclose(self) -> None:
        """Writes the rest, if it can be."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        try:
            await self.flush()
        except Exception:
            log.exception("%d rows could not be written", len(self.waiting))
        await asyncio.to_thread(self._thread.shutdown)
        self._engine.dispose()
