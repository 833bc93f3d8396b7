"""Threads: what was asked and answered in one conversation, whose it is, and whether it is busy.

A turn is a checkpoint of its own, so that a long conversation is as quick to continue as a short
one; a thread is the list of its checkpoints. Whose it is stands in our own table.
"""

import asyncio
import re
import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from sqlalchemy import bindparam, delete, exists, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.errors import NotFound, StoreFailed, ThreadBusy
from app.runs.run import Run
from app.schemas.ask import AskResponse
from app.storage.batch_writer import KNOWN_EVERYWHERE_S, Recorder
from app.storage.database import FORGOTTEN_AT_ONCE, now, reading
from app.storage.tables import RUNS, THREADS
from graphs.types import Message

BUSY_S = 20.0
"""How long a thread stays busy whose process has died; a living one renews it in time."""
HISTORY_TURNS = 10
HISTORY_CHARACTERS = 16_000
"""Most of a conversation that a question is given, in questions with their answers."""
MOST_TURNS = 1000
"""Most turns told of a thread, the latest."""
CHANNEL = "turn"
DELETING = "deleting"
_OURS = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")
"""The names of threads that clients do not name: `uuid4().hex`."""

Row = Mapping[str, Any]

_OPEN = THREADS.insert()
# Whichever run is on it by now: a thread with a turn is no empty one.
_ANSWERED = (
    update(THREADS).where(THREADS.c.id == bindparam("thread")).values(updated_at=bindparam("at"))
)
_UNANSWERED = (
    delete(THREADS)
    .where(THREADS.c.id == bindparam("thread"), THREADS.c.run_id == bindparam("run"))
    .where(THREADS.c.updated_at == THREADS.c.created_at)
)
_LET_GO = (
    update(THREADS)
    .where(THREADS.c.id == bindparam("thread"), THREADS.c.run_id == bindparam("run"))
    .values(run_id=None, busy_until=None)
)


class Threads:
    def __init__(
        self, engine: AsyncEngine, recorder: Recorder, saver: BaseCheckpointSaver[str]
    ) -> None:
        self._engine, self._recorder, self._saver = engine, recorder, saver

    def open(self, thread_id: str, owner: str, run_id: str) -> None:
        """A thread nobody knows of yet, busy with its first run."""
        self._recorder.add(_OPEN, _row(thread_id, owner, run_id))

    async def take(self, thread_id: str, owner: str, run_id: str) -> None:
        """Makes the thread busy with the run; an unknown one is opened.

        Raises NotFound where it is another's, ThreadBusy where a run is under way on it.
        """
        await self._all_written(thread_id)
        try:
            async with self._engine.begin() as connection:
                if (row := await _locked(connection, thread_id)) is None:
                    await connection.execute(_OPEN, _row(thread_id, owner, run_id))
                else:
                    await _occupy(connection, row, owner, run_id)
        except IntegrityError:  # opened elsewhere in this very moment
            raise ThreadBusy(thread_id) from None
        if row is None:
            await self._empty(thread_id, run_id)

    async def _all_written(self, thread_id: str) -> None:
        """What is known of it here, and elsewhere of one whose name is of our own making."""
        await self._recorder.flush()
        if _OURS.fullmatch(thread_id) and not await self._is_known(thread_id):
            await asyncio.sleep(KNOWN_EVERYWHERE_S)

    async def _is_known(self, thread_id: str) -> bool:
        async with reading(self._engine) as connection:
            known = await connection.scalar(select(THREADS.c.id).where(THREADS.c.id == thread_id))
        return known is not None

    async def _empty(self, thread_id: str, run_id: str) -> None:
        """A new thread has no turns: not even those of another's that was lost under its name."""
        try:
            await self._delete_turns(thread_id)
        except BaseException:
            self._recorder.add(_UNANSWERED, {"thread": thread_id, "run": run_id})
            raise

    async def answered(self, run: Run, response: AskResponse) -> None:
        """The run's turn is part of the thread, which is free for the next."""
        turn = {
            "run_id": run.id,
            "question": run.asked.question["question"],
            "answer": response.answer,
            "citations": [citation.model_dump(mode="json") for citation in response.citations],
            "asked_at": run.created_at,
            "answered_at": now(),
        }
        checkpoint = empty_checkpoint()
        version = checkpoint["id"]
        checkpoint["channel_values"] = {CHANNEL: turn}
        checkpoint["channel_versions"] = {CHANNEL: version}
        keep = partial(self._saver.put, _config(run.thread_id), checkpoint, {"source": "update"})
        try:
            await self._recorder.in_thread(keep, {CHANNEL: version})
        finally:  # where the turn could not be kept, the thread goes on without it
            self._recorder.add(_ANSWERED, {"thread": run.thread_id, "at": turn["answered_at"]})
            self._recorder.add(_LET_GO, {"thread": run.thread_id, "run": run.id})

    def let_go(self, run: Run) -> None:
        """Frees the thread of a run without a turn; one without any turn is gone with it."""
        row = {"thread": run.thread_id, "run": run.id}
        self._recorder.add(_UNANSWERED, row)
        self._recorder.add(_LET_GO, row)

    async def history(self, thread_id: str) -> list[Message]:
        """The latest turns as a dialogue, oldest first, within the bounds.

        The latest is there at any rate, its answer cut where it is too long.
        """
        messages: list[Message] = []
        left = HISTORY_CHARACTERS
        for turn in await self._turns(thread_id, HISTORY_TURNS):
            question, answer = turn["question"], turn["answer"]
            left -= len(question)
            if left < len(answer) and messages:
                break
            messages[:0] = [
                {"role": "user", "content": question},
                {"role": "assistant", "content": answer[: max(left, 0)]},
            ]
            left -= len(answer)
        return messages

    async def get(self, thread_id: str, owner: str) -> tuple[Row, list[dict[str, Any]]]:
        """The thread's row and its turns, oldest first. Raises NotFound."""
        await self._all_written(thread_id)
        async with reading(self._engine) as connection:
            found = await connection.execute(
                select(THREADS).where(THREADS.c.id == thread_id, THREADS.c.owner == owner)
            )
        if (row := found.mappings().first()) is None:
            raise NotFound(f"There is no thread {thread_id}.")
        return cast("Row", row), (await self._turns(thread_id, MOST_TURNS))[::-1]

    async def delete(self, thread_id: str, owner: str) -> None:
        """With all runs on it. Raises NotFound, or ThreadBusy while one is under way."""
        await self._all_written(thread_id)
        async with self._engine.begin() as connection:
            if (row := await _locked(connection, thread_id)) is None:
                raise NotFound(f"There is no thread {thread_id}.")
            await _occupy(connection, row, owner, DELETING)
        await self._delete_turns(thread_id)
        async with self._engine.begin() as connection:
            await connection.execute(
                delete(RUNS).where(RUNS.c.thread_id == thread_id, RUNS.c.owner == owner)
            )
            await connection.execute(delete(THREADS).where(THREADS.c.id == thread_id))

    async def forget(self, older_than: float) -> int:
        """Removes idle threads without a run that nobody has gone on with since; tells how many.

        A few at a time: those left are for the next time.
        """
        idle = (
            THREADS.c.updated_at < older_than,
            or_(THREADS.c.run_id.is_(None), THREADS.c.busy_until < now()),
            ~exists().where(RUNS.c.thread_id == THREADS.c.id),
        )
        async with reading(self._engine) as connection:
            found = await connection.execute(
                select(THREADS.c.id).where(*idle).limit(FORGOTTEN_AT_ONCE)
            )
            old = found.scalars().all()
        if not old:
            return 0
        taking = update(THREADS).where(THREADS.c.id.in_(old), *idle)
        async with self._engine.begin() as connection:
            taken = await connection.execute(
                taking.values(run_id=DELETING, busy_until=now() + BUSY_S).returning(THREADS.c.id)
            )
            gone = taken.scalars().all()
        for thread_id in gone:
            await self._delete_turns(thread_id)
        async with self._engine.begin() as connection:
            ours = THREADS.c.id.in_(gone), THREADS.c.run_id == DELETING
            await connection.execute(delete(THREADS).where(*ours))
        return len(gone)

    async def _delete_turns(self, thread_id: str) -> None:
        try:
            await self._recorder.in_thread(self._saver.delete_thread, thread_id)
        except (sqlite3.Error, psycopg.Error) as error:
            raise StoreFailed from error

    async def renew(self, process: str) -> None:
        """Keeps the threads busy that runs of this process are under way on."""
        under_way = select(RUNS.c.id).where(RUNS.c.status == "running", RUNS.c.process == process)
        async with self._engine.begin() as connection:
            await connection.execute(
                update(THREADS)
                .where(THREADS.c.run_id.in_(under_way))
                .values(busy_until=now() + BUSY_S)
            )

    async def free(self, run_ids: Sequence[str]) -> None:
        """Of runs that are lost."""
        async with self._engine.begin() as connection:
            await connection.execute(
                update(THREADS)
                .where(THREADS.c.run_id.in_(run_ids))
                .values(run_id=None, busy_until=None)
            )

    async def _turns(self, thread_id: str, most: int) -> list[dict[str, Any]]:
        """Latest first."""
        try:
            return await asyncio.to_thread(self._read_turns, thread_id, most)
        except (sqlite3.Error, psycopg.Error) as error:
            raise StoreFailed from error

    def _read_turns(self, thread_id: str, most: int) -> list[dict[str, Any]]:
        found = self._saver.list(_config(thread_id), limit=most)
        return [kept.checkpoint["channel_values"][CHANNEL] for kept in found]


def _row(thread_id: str, owner: str, run_id: str) -> dict[str, Any]:
    at = now()
    return {
        "id": thread_id,
        "owner": owner,
        "created_at": at,
        "updated_at": at,
        "run_id": run_id,
        "busy_until": at + BUSY_S,
    }


async def _locked(connection: AsyncConnection, thread_id: str) -> Row | None:
    found = await connection.execute(
        select(THREADS).where(THREADS.c.id == thread_id).with_for_update()
    )
    return cast("Row | None", found.mappings().first())


async def _occupy(connection: AsyncConnection, row: Row, owner: str, run_id: str) -> None:
    if row["owner"] != owner:
        raise NotFound(f"There is no thread {row['id']}.")
    if row["run_id"] is not None and (row["busy_until"] or 0) > now():
        raise ThreadBusy(row["id"])
    await connection.execute(
        update(THREADS)
        .where(THREADS.c.id == row["id"])
        .values(run_id=run_id, busy_until=now() + BUSY_S)
    )


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
