"""Checkpoints of runs under way, in the service's own database by LangGraph's own savers.

A run is a checkpoint thread of its own, under a new name each time that a process takes it up: what
a process writes that was only thought to be gone is read by nobody.

These savers write little. Values are compressed. What a step's tasks have found waits a moment
before it is written, for the checkpoint that follows the last of them holds it as well. Where the
database cannot be written a run goes on without: if its process is killed then, more of its steps
are done again.
"""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import is_dataclass
from inspect import getmembers, isclass
from typing import Any

import aiosqlite
import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from app.storage.database import BUSY_TIMEOUT_MS
from graphs import types

log = logging.getLogger(__name__)

SOON_S = 0.05
"""Longest time that what a task has found waits to be written."""
WRITTEN_WITHIN_S = 2.0
"""Longest time that a step waits for its checkpoint; then the run goes on without any."""
MAX_CONNECTIONS = 4
SETUP_LOCK = 7_350_242_120
"""Any number, the same in all processes: one of them creates the tables."""

Saver = BaseCheckpointSaver[Any]


def checkpoint_thread(run_id: str, process: str) -> str:
    """Where a process keeps the checkpoints of a run: one only thought gone has another."""
    return f"{run_id}.{process}"


class _Zlib(CipherProtocol):
    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "zlib", zlib.compress(plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:  # noqa: ARG002
        return zlib.decompress(ciphertext)


def _serializer() -> EncryptedSerializer:
    """Loads values of the graphs' own types alone: a checkpoint could name any callable."""
    ours = (it for _, it in getmembers(types, isclass) if is_dataclass(it))
    known = [(it.__module__, it.__name__) for it in ours]
    return EncryptedSerializer(_Zlib(), JsonPlusSerializer(allowed_msgpack_modules=known))


class CompactSaver(Saver):
    """A saver that writes little and locks nothing: mixed in before LangGraph's own."""

    tables: tuple[str, ...]
    """Those that name a thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
        self._writing = set[asyncio.Task[object]]()
        self._given_up = set[str]()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place = config["configurable"]
        thread, namespace = place["thread_id"], place["checkpoint_ns"]
        if thread not in self._given_up:
            try:
                async with asyncio.timeout(WRITTEN_WITHIN_S):
                    await self._shielded(super().aput(config, checkpoint, metadata, new_versions))
            except Exception as error:  # noqa: BLE001 -- the drivers' own, of two databases
                self._give_up(thread, error)
        self._waiting.pop((thread, namespace, place.get("checkpoint_id", "")), None)
        written = {
            "thread_id": thread,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint["id"],
        }
        return {"configurable": written}

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        place = config["configurable"]
        key = place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]
        if key not in self._waiting:
            self._waiting[key] = []
            asyncio.get_running_loop().call_later(SOON_S, self._write_soon, key)
        self._waiting[key].append((config, writes, task_id, task_path))

    def _write_soon(self, key: tuple[str, ...]) -> None:
        if key in self._waiting:
            self._begin(self._write(self._waiting.pop(key)))

    def _begin(self, write: Coroutine[object, None, object]) -> asyncio.Task[object]:
        task = asyncio.create_task(write)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return task

    async def _shielded(self, write: Coroutine[object, None, object]) -> None:
        """Also where whoever waits for it stops: half a transaction would lock the database."""
        await asyncio.shield(self._begin(write))

    async def _write(self, waiting: Sequence[tuple[Any, ...]]) -> None:
        for entry in waiting:
            thread = entry[0]["configurable"]["thread_id"]
            if thread not in self._given_up:
                try:
                    await super().aput_writes(*entry)
                except Exception as error:  # noqa: BLE001 -- the drivers' own, of two databases
                    self._give_up(thread, error)

    async def flush(self) -> None:
        """Writes what waits."""
        for key in list(self._waiting):
            self._write_soon(key)
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _give_up(self, thread: str, error: Exception) -> None:
        self._given_up.add(thread)
        log.warning("no further checkpoint of %s is written: %s", thread.partition(".")[0], error)

    async def adelete_thread(self, thread_id: str) -> None:
        for key in [key for key in self._waiting if key[0] == thread_id]:
            del self._waiting[key]
        self._given_up.discard(thread_id)
        await self._shielded(super().adelete_thread(thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """The latest checkpoint of the graph and of each subgraph, with what its tasks found."""
        seen = set[str]()
        source: RunnableConfig = {"configurable": {"thread_id": source_thread_id}}
        for stored in [each async for each in self.alist(source)]:
            namespace = stored.config["configurable"]["checkpoint_ns"]
            if namespace in seen:  # latest first
                continue
            seen.add(namespace)
            target = {"thread_id": target_thread_id, "checkpoint_ns": namespace}
            versions = stored.checkpoint["channel_versions"]
            config: RunnableConfig = {"configurable": target}
            await self._shielded(super().aput(config, stored.checkpoint, stored.metadata, versions))
            place: RunnableConfig = {
                "configurable": {**target, "checkpoint_id": stored.checkpoint["id"]}
            }
            by_task: dict[str, list[tuple[str, Any]]] = {}
            for task_id, channel, value in stored.pending_writes or ():
                by_task.setdefault(task_id, []).append((channel, value))
            for task_id, writes in by_task.items():
                await self._shielded(super().aput_writes(place, writes, task_id))


class SqliteCheckpoints(CompactSaver, AsyncSqliteSaver):
    tables = ("checkpoints", "writes")


class PostgresCheckpoints(CompactSaver, AsyncPostgresSaver):
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


@asynccontextmanager
async def open_checkpoints(url: sa.URL) -> AsyncIterator[CompactSaver]:
    """The saver for this database, with its tables. Raises the driver's errors."""
    serde = _serializer()
    if url.get_backend_name() == "sqlite":
        place, timeout_s = url.database or ":memory:", BUSY_TIMEOUT_MS / 1000
        async with aiosqlite.connect(place, timeout=timeout_s) as connection:
            await connection.execute("PRAGMA synchronous = NORMAL")
            beside = SqliteCheckpoints(connection, serde=serde)
            await beside.setup()
            yield beside
            await beside.flush()
        return
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        address, kwargs=options, min_size=1, max_size=MAX_CONNECTIONS, open=False
    )
    async with pool:
        saver = PostgresCheckpoints(pool, serde=serde)
        async with pool.connection() as connection:
            await _lock(connection)
            try:
                await saver.setup()
            finally:
                await connection.execute("SELECT pg_advisory_unlock(%s)", (SETUP_LOCK,))
        yield saver
        await saver.flush()


async def _lock(connection: AsyncConnection[DictRow]) -> None:
    """Not by waiting within a statement: indexing a table waits for all statements before it."""
    is_locked = False
    while not is_locked:
        cursor = await connection.execute(
            "SELECT pg_try_advisory_lock(%s) AS is_ours", (SETUP_LOCK,)
        )
        is_locked = bool((await cursor.fetchone() or {})["is_ours"])
        await asyncio.sleep(0 if is_locked else SOON_S)
