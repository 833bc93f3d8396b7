"""Store lifecycle: opens all stores; a background task does the housekeeping."""

import asyncio
import logging
import os
import socket
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import psycopg
import sqlalchemy as sa
from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import NotFound, StartFailed
from app.settings import Settings
from app.storage.checkpoints import CompactSaver, open_checkpoints
from app.storage.database import (
    FORGOTTEN_AT_ONCE,
    KNOWN_EVERYWHERE_S,
    BatchWriter,
    Row,
    execute,
    now,
    rows_of,
    unusable,
    values_of,
)
from app.storage.runs import KeptRuns
from app.storage.tables import PROCESSES, RUNS
from app.storage.threads import Threads

log = logging.getLogger(__name__)

BEAT_S = 5.0
GONE_S = 30.0
"""A process of another machine that was not seen for so long has ended."""
REPLACED_S = 15.0
"""So has one of our own host and number: in another container it would have been seen."""
TIDY_EVERY_BEATS = 12
DAY_S = 86_400.0
MAX_RUNS = 10_000
"""Most finished runs kept; beyond it the oldest without feedback go."""
_OPEN_HERE: set[str] = set()
"""Stores of this very process: several services may run in one."""


class Store:
    """Runs and threads of this process and of all others at the same database."""

    def __init__(
        self,
        engine: AsyncEngine,
        writer: BatchWriter,
        threads: Threads,
        checkpoints: CompactSaver,
        settings: Settings,
    ) -> None:
        self.process = uuid.uuid4().hex
        self.writer, self.threads, self.checkpoints = writer, threads, checkpoints
        self.runs = KeptRuns(engine, writer, self.process)
        self._engine, self._settings = engine, settings
        self._host, self._pid = socket.gethostname(), os.getpid()

    async def arrive(self) -> None:
        """Register this process and clean up after dead ones."""
        _OPEN_HERE.add(self.process)
        await self._be_seen()
        await self.find_lost()

    async def leave(self) -> None:
        _OPEN_HERE.discard(self.process)
        await execute(self._engine, delete(PROCESSES).where(PROCESSES.c.id == self.process))

    async def run_of(self, run_id: str, owner: str | None) -> Row:
        """The run's row, up to date. Raises NotFound, also where it is another's."""
        await self.writer.flush()
        try:
            return await self.runs.get(run_id, owner)
        except NotFound:
            await asyncio.sleep(KNOWN_EVERYWHERE_S)  # it may have begun elsewhere in this moment
            return await self.runs.get(run_id, owner)

    async def find_lost(self) -> None:
        """Mark runs of dead processes as resumable or lost, and free their threads."""
        # In this order: a process that arrives meanwhile is known before it works.
        working = select(RUNS.c.process).where(RUNS.c.status == "running").distinct()
        at_work = set(await values_of(self._engine, working))
        known = {row["id"]: row for row in await rows_of(self._engine, select(PROCESSES))}
        dead = {name for name, row in known.items() if self._is_gone(row)}
        dead |= at_work - known.keys() - {self.process}
        if not dead:
            return
        lost = await self.runs.lose(sorted(dead))
        await self.threads.free(lost)
        await execute(self._engine, delete(PROCESSES).where(PROCESSES.c.id.in_(sorted(dead))))
        if lost:
            log.warning("%d runs were lost with the processes that worked on them", len(lost))

    async def beat(self) -> None:
        await self._be_seen()
        await self.threads.renew(self.process)

    async def _be_seen(self) -> None:
        """Register this process again, too, where others took it for dead after a pause."""
        row = {"id": self.process, "host": self._host, "pid": self._pid, "seen_at": now()}
        seen = update(PROCESSES).where(PROCESSES.c.id == self.process)
        async with self._engine.begin() as connection:
            if not (await connection.execute(seen.values(seen_at=row["seen_at"]))).rowcount:
                await connection.execute(PROCESSES.insert(), row)

    async def tidy(self) -> bool:
        """Forgets runs that the settings keep no longer, and conversations without any.

        A few at a time, for this process is to be seen meanwhile; True where some are left.
        """
        older_than = now() - self._settings.keep_runs_days * DAY_S
        runs = await self.runs.forget(MAX_RUNS, older_than)
        threads = await self.threads.forget(older_than)
        await self._forget_checkpoints()
        return max(runs, threads) >= FORGOTTEN_AT_ONCE

    async def _forget_checkpoints(self) -> None:
        """Of runs that have ended, or that nobody knows of with their process."""
        threads = " UNION ".join(f"SELECT thread_id FROM {it}" for it in self.checkpoints.tables)
        thread_ids = await values_of(self._engine, sa.text(f"{threads} LIMIT {FORGOTTEN_AT_ONCE}"))
        ids = [thread.partition(".")[0] for thread in thread_ids]
        known = select(RUNS.c.id, RUNS.c.status).where(RUNS.c.id.in_(ids))
        status_of = {row["id"]: row["status"] for row in await rows_of(self._engine, known)}
        alive = set(await values_of(self._engine, select(PROCESSES.c.id)))
        for thread in thread_ids:
            run_id, _, process = thread.partition(".")
            status = status_of.get(run_id, "running" if process in alive else "unknown")
            if status != "running":
                await self.checkpoints.adelete_thread(thread)

    def _is_gone(self, row: Row) -> bool:
        if row["id"] in _OPEN_HERE:
            return False
        is_here = row["host"] == self._host
        if is_here and not _is_alive(row["pid"]):
            return True
        # In containers every process is number 1: this one came before us, or works beside us.
        is_namesake = is_here and row["pid"] == self._pid
        return bool(row["seen_at"] < now() - (REPLACED_S if is_namesake else GONE_S))


async def _keep_in_order(store: Store) -> None:
    is_untidy = False
    for beat in range(1_000_000_000):
        try:
            await store.beat()
            await store.find_lost()
            if is_untidy or beat % TIDY_EVERY_BEATS == 0:
                is_untidy = await store.tidy()
        except (SQLAlchemyError, OSError):
            log.exception("the maintenance of the store failed")
        await asyncio.sleep(BEAT_S)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


@asynccontextmanager
async def open_store(settings: Settings, engine: AsyncEngine) -> AsyncIterator[Store]:
    """What lasts, in order. Runs must have ended before it closes.

    Raises StartFailed where the database cannot be used.
    """
    writer = BatchWriter(engine.url)
    keeping: asyncio.Task[None] | None = None
    stack = AsyncExitStack()
    try:
        try:
            checkpoints = await stack.enter_async_context(open_checkpoints(engine.url))
            store = Store(engine, writer, Threads(engine, writer), checkpoints, settings)
            stack.push_async_callback(_leave, store)
            await store.arrive()
        except (SQLAlchemyError, OSError, sqlite3.Error, psycopg.Error) as error:
            raise StartFailed(unusable(engine.url, error)) from error
        keeping = asyncio.create_task(_keep_in_order(store), name="keep-in-order")
        yield store
    finally:
        if keeping is not None:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
        await writer.aclose()
        await stack.aclose()


async def _leave(store: Store) -> None:
    with suppress(SQLAlchemyError, OSError):
        await store.leave()
