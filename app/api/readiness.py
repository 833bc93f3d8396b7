"""Readiness: whether runs can be answered, tested by reading what they need.

Index and database are needed, and room to write: without it no conversation goes on. Without the
evaluator, a language model, a search engine or stored images runs go on degraded: such a service
stays ready and says so.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.retrieval.images import ImageStore
from app.state_folder import why_unwritable
from app.storage.database import metadata, reading
from app.storage.tables import RUNS
from graphs.ports import Services

log = logging.getLogger(__name__)

KEPT_S = 1.0
CHECK_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class ReadinessState:
    """`failures` keep runs from being answered, `degraded` makes their answers worse."""

    failures: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()


class Readiness:
    """Checks at most once in KEPT_S, however many ask.

    Dependencies elsewhere are not asked: their circuit breakers know how runs fared with them.
    """

    def __init__(
        self, services: Services, engine: AsyncEngine, state: Path, images: ImageStore
    ) -> None:
        self._services, self._engine, self._folder = services, engine, state
        self._images, self._unwritable = images, ""
        self._checking = asyncio.Lock()
        self._state, self._until_s = ReadinessState(), 0.0

    async def state(self) -> ReadinessState:
        async with self._checking:
            if time.monotonic() >= self._until_s:
                self._state = await self._check()
                self._until_s = time.monotonic() + KEPT_S
            return self._state

    async def _check(self) -> ReadinessState:
        index, database, evaluator, images, is_writable = await asyncio.gather(
            _in_time(self._services.retriever.ready()),
            _in_time(can_be_read(self._engine)),
            _in_time(self._services.evaluator.ready()),
            _in_time(asyncio.to_thread(self._images.can_be_read)),
            _in_time(asyncio.to_thread(self._can_be_written)),
        )
        failures = {
            "the index cannot be read": not index,
            "the database cannot be read": not database,
            "the data folder cannot be written": not is_writable,
        }
        circuits = self._services.circuits.items()
        degraded = {name for name, circuit in circuits if circuit.openness() > 0}
        if not evaluator:
            degraded.add("evaluator")
        if not images:
            degraded.add("images")
        failed = tuple(what for what, is_so in failures.items() if is_so)
        return ReadinessState(failed, tuple(sorted(degraded)))

    def _can_be_written(self) -> bool:
        before, self._unwritable = self._unwritable, why_unwritable(self._folder)
        if self._unwritable and not before:
            log.error("%s cannot be written: %s", self._folder, self._unwritable)
        return not self._unwritable


async def _in_time(check: Awaitable[bool]) -> bool:
    try:
        async with asyncio.timeout(CHECK_WITHIN_S):
            return await check
    except TimeoutError:
        return False


async def can_be_read(engine: AsyncEngine) -> bool:
    """Whether the tables of the database can be read now.

    Open connections keep reading an SQLite file that was removed or overwritten, so it is opened
    anew.
    """
    path = engine.url.database
    try:
        if engine.url.get_backend_name() == "sqlite" and path:
            await asyncio.to_thread(_read_file, Path(path))
            return True
        async with reading(engine) as connection:
            await connection.execute(sa.select(RUNS.c.id).limit(1))
    except (SQLAlchemyError, sqlite3.Error, OSError):
        return False
    return True


def _read_file(path: Path) -> None:
    address = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=CHECK_WITHIN_S)) as connection:
        for table in metadata.tables.values():
            connection.execute(f'SELECT * FROM "{table.name}" LIMIT 1').fetchone()
