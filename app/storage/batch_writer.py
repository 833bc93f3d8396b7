"""Writes what runs tell into the database, in batches, beside them: a run never waits for a disk.

The exception is `flush`, for those who want to read what they have just told.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import Executable, Select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, IntegrityError

from app.storage.database import writing_engine

log = logging.getLogger(__name__)

BATCH_S = 0.05
"""Longest time that what happened waits to be written."""
KNOWN_EVERYWHERE_S = 2 * BATCH_S
"""After it every process knows what happened, unless the database is slow."""
MAX_WAITING = 100_000
MAX_AT_ONCE = 5_000
RETRY_S, MAX_RETRY_S = 1.0, 30.0
"""The pause after a failure, which grows with each."""

A = TypeVar("A")
B = TypeVar("B")
Row = Mapping[str, Any]
Entry = tuple[Executable, Row]

_UNFIT = (IntegrityError, DataError, ValueError, TypeError, ArithmeticError)
"""The database refuses such a row, or its driver cannot say it: no second try will help."""


class BatchWriter:
    """Writes from a task of its own; `add` never waits, `flush` returns when all is written."""

    def __init__(self, url: URL) -> None:
        self._engine = writing_engine(url)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._waiting: deque[Entry] = deque()
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task = asyncio.create_task(self._write_on(), name="writer")

    def add(self, statement: Executable, row: Row) -> None:
        """Executes the statement with the row soon, after all that was added before.

        Where the database is away for long, what waits longest is given up.
        """
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
        self._waiting.append((statement, row))
        self._some.set()

    async def flush(self) -> None:
        """Raises SQLAlchemyError or OSError where it cannot be written; it is tried again then."""
        # Half a transaction is none: whoever stops waiting for it does not stop it.
        await asyncio.shield(self._flush())

    async def _flush(self) -> None:
        async with self._writing:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, self.waiting))]
                try:
                    await self._write(batch)
                except Exception:
                    self._waiting.extendleft(reversed(batch))
                    raise

    async def _write(self, batch: Sequence[Entry]) -> None:
        try:
            await self._in_thread(self._commit, batch)
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
                connection.execute(statements[0], list(rows))

    async def look(self, query: Select[Any]) -> Sequence[Any]:
        """The first column of what is found, for those who look often."""
        return await self._in_thread(self._look, query)

    def _look(self, query: Select[Any]) -> Sequence[Any]:
        with self._engine.connect() as connection:
            reading = connection.execution_options(isolation_level="AUTOCOMMIT")
            return reading.execute(query).scalars().all()

    async def _in_thread(self, do: Callable[[A], B], what: A) -> B:
        """Does what waits for the database where batches are written, after those before it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, do, what)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

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
                    *(len(self._waiting), str(error).partition("\n")[0]),
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
            log.exception("%d rows could not be written", len(self._waiting))
        await asyncio.to_thread(self._thread.shutdown)
        self._engine.dispose()
