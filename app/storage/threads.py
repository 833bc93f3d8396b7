"""Thread store: the turns of a conversation, its owner, and whether it is busy."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

from sqlalchemy import Float, String, Text, bindparam, delete, exists, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.errors import NotFound, ThreadBusy
from app.schemas.ask import AskResponse
from app.storage.database import (
    FORGOTTEN_AT_ONCE,
    KNOWN_EVERYWHERE_S,
    BatchWriter,
    Row,
    execute,
    now,
    rows_of,
    values_of,
)
from app.storage.runs import RunRecord
from app.storage.tables import RUNS, THREADS, TURNS
from graphs.types import Message

BUSY_S = 20.0
"""How long a thread stays busy whose process has died; a living one renews it in time."""
HISTORY_TURNS = 10
HISTORY_CHARS = 16_000
"""Most of a conversation that a question is given, in questions with their answers."""
MAX_TURNS = 1000
"""Most turns told of a thread, the latest."""
_OURS = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")
"""The names of threads that clients do not name: `uuid4().hex`."""


_OPEN = THREADS.insert()
_THREAD = bindparam("thread", type_=String)
_ADD_TURN = TURNS.insert().from_select(
    ["thread_id", "number", "run_id", "question", "answer", "citations", "asked_at", "answered_at"],
    select(
        _THREAD,
        func.coalesce(func.max(TURNS.c.number), 0) + 1,
        bindparam("run", type_=String),
        *(bindparam(name, type_=Text) for name in ("question", "answer", "citations")),
        *(bindparam(name, type_=Float) for name in ("asked_at", "answered_at")),
    ).where(TURNS.c.thread_id == _THREAD),
)
# Whichever run is on it by now: a thread with a turn is no empty one.
_ANSWERED = update(THREADS).where(THREADS.c.id == _THREAD).values(updated_at=bindparam("at"))
_UNANSWERED = (
    delete(THREADS)
    .where(THREADS.c.id == _THREAD, THREADS.c.run_id == bindparam("run"))
    .where(THREADS.c.updated_at == THREADS.c.created_at)
)
_LET_GO = (
    update(THREADS)
    .where(THREADS.c.id == _THREAD, THREADS.c.run_id == bindparam("run"))
    .values(run_id=None, busy_until=None)
)


class Threads:
    """Conversations of all owners; the turns of a thread go with its row."""

    def __init__(self, engine: AsyncEngine, writer: BatchWriter) -> None:
        self._engine, self._writer = engine, writer

    def open(self, thread_id: str, owner: str, run_id: str) -> None:
        """A thread nobody knows of yet, busy with its first run."""
        self._writer.add(_OPEN, _row(thread_id, owner, run_id))

    async def create(self, thread_id: str, owner: str) -> bool:
        """An empty thread, idle; False where the owner has it already. Raises NotFound."""
        await self._all_written(thread_id)
        try:
            async with self._engine.begin() as connection:
                if (row := await _locked(connection, thread_id)) is None:
                    idle = {"run_id": None, "busy_until": None}
                    await connection.execute(_OPEN, {**_row(thread_id, owner, ""), **idle})
                    return True
                _assert_owned(row, owner)
        except IntegrityError:  # made elsewhere in this very moment
            await self.get(thread_id, owner)
        return False

    async def take(self, thread_id: str, owner: str, run_id: str) -> None:
        """Makes the thread busy with the run; an unknown one is opened.

        Raises NotFound where it is another's, ThreadBusy where a run is under way on it.
        """
        await self._all_written(thread_id)
        try:
            async with self._engine.begin() as connection:
                if (row := await _locked(connection, thread_id)) is None:
                    await connection.execute(_OPEN, _row(thread_id, owner, run_id))
                    return
                _assert_free(row, owner)
                await connection.execute(
                    update(THREADS)
                    .where(THREADS.c.id == thread_id)
                    .values(run_id=run_id, busy_until=now() + BUSY_S)
                )
        except IntegrityError:  # opened elsewhere in this very moment
            raise ThreadBusy(thread_id) from None

    async def _all_written(self, thread_id: str) -> None:
        """What is known of it here, and elsewhere of one whose name is of our own making."""
        await self._writer.flush()
        if not _OURS.fullmatch(thread_id):
            return
        query = select(THREADS.c.id).where(THREADS.c.id == thread_id)
        if not await values_of(self._engine, query):
            await asyncio.sleep(KNOWN_EVERYWHERE_S)

    def answered(self, run: RunRecord, response: AskResponse) -> Sequence[tuple[Any, Row]]:
        """What makes the run's turn part of the thread, which is free for the next then."""
        cited = [asdict(citation) for citation in response.citations]
        turn = {
            "thread": run.thread_id,
            "run": run.id,
            "question": run.question,
            "answer": response.answer,
            "citations": json.dumps(cited, ensure_ascii=False),
            "asked_at": run.created_at,
            "answered_at": now(),
        }
        row = {"thread": run.thread_id, "run": run.id}
        answered_at = {"thread": run.thread_id, "at": turn["answered_at"]}
        return [(_ADD_TURN, turn), (_ANSWERED, answered_at), (_LET_GO, row)]

    def unanswered(self, run: RunRecord) -> Sequence[tuple[Any, Row]]:
        """What frees the thread of a run without a turn; one without any turn is gone with it."""
        row = {"thread": run.thread_id, "run": run.id}
        return [(_UNANSWERED, row), (_LET_GO, row)]

    def let_go(self, run: RunRecord) -> None:
        """The same at once, of a run that did not begin."""
        for statement, row in self.unanswered(run):
            self._writer.add(statement, row)

    async def history(self, thread_id: str, until_run: str | None = None) -> list[Message]:
        """The latest turns as a dialogue, oldest first, within the bounds.

        The latest is there at any rate, its answer cut where it is too long. `until_run` leaves out
        the turns after that run's.
        """
        messages: list[Message] = []
        left = HISTORY_CHARS
        for turn in await self._turns(thread_id, HISTORY_TURNS, until_run):
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

    async def get(self, thread_id: str, owner: str) -> tuple[Row, Sequence[Row]]:
        """The thread's row and its turns, oldest first. Raises NotFound."""
        await self._all_written(thread_id)
        query = select(THREADS).where(THREADS.c.id == thread_id, THREADS.c.owner == owner)
        rows = await rows_of(self._engine, query)
        if not rows:
            raise NotFound(f"There is no thread {thread_id}.")
        return rows[0], (await self._turns(thread_id, MAX_TURNS))[::-1]

    async def delete(self, thread_id: str, owner: str) -> None:
        """With all runs on it. Raises NotFound, or ThreadBusy while one is under way."""
        await self._all_written(thread_id)
        async with self._engine.begin() as connection:
            if (row := await _locked(connection, thread_id)) is None:
                raise NotFound(f"There is no thread {thread_id}.")
            _assert_free(row, owner)
            await connection.execute(
                delete(RUNS).where(RUNS.c.thread_id == thread_id, RUNS.c.owner == owner)
            )
            await connection.execute(delete(THREADS).where(THREADS.c.id == thread_id))

    async def delete_run(self, thread_id: str, run_id: str) -> None:
        """Removes an ended run with its turn, and the thread where nothing is left on it."""
        async with self._engine.begin() as connection:
            await connection.execute(
                delete(TURNS).where(TURNS.c.thread_id == thread_id, TURNS.c.run_id == run_id)
            )
            await connection.execute(delete(RUNS).where(RUNS.c.id == run_id))
            await connection.execute(
                delete(THREADS).where(
                    THREADS.c.id == thread_id,
                    THREADS.c.run_id.is_(None),
                    ~exists().where(TURNS.c.thread_id == thread_id),
                    ~exists().where(RUNS.c.thread_id == thread_id),
                )
            )

    async def forget(self, older_than: float) -> int:
        """Removes idle threads without a run that nobody has gone on with since; tells how many.

        A few at a time: those left are for the next time.
        """
        idle = (
            THREADS.c.updated_at < older_than,
            or_(THREADS.c.run_id.is_(None), THREADS.c.busy_until < now()),
            ~exists().where(RUNS.c.thread_id == THREADS.c.id),
        )
        old = select(THREADS.c.id).where(*idle).limit(FORGOTTEN_AT_ONCE)
        return await execute(self._engine, delete(THREADS).where(THREADS.c.id.in_(old), *idle))

    async def renew(self, process: str) -> None:
        """Keeps the threads busy that runs of this process are under way on."""
        under_way = select(RUNS.c.id).where(RUNS.c.status == "running", RUNS.c.process == process)
        theirs = update(THREADS).where(THREADS.c.run_id.in_(under_way))
        await execute(self._engine, theirs.values(busy_until=now() + BUSY_S))

    async def free(self, run_ids: Sequence[str]) -> None:
        """Of runs that are lost."""
        theirs = update(THREADS).where(THREADS.c.run_id.in_(run_ids))
        await execute(self._engine, theirs.values(run_id=None, busy_until=None))

    async def _turns(
        self, thread_id: str, most: int, until_run: str | None = None
    ) -> Sequence[Row]:
        """Latest first; all of them where `until_run` has none."""
        latest = select(TURNS).where(TURNS.c.thread_id == thread_id).order_by(TURNS.c.number.desc())
        if until_run is not None:
            last = (
                select(TURNS.c.number)
                .where(TURNS.c.thread_id == thread_id, TURNS.c.run_id == until_run)
                .scalar_subquery()
            )
            latest = latest.where(TURNS.c.number <= func.coalesce(last, TURNS.c.number))
        return await rows_of(self._engine, latest.limit(most))


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
    result = await connection.execute(
        select(THREADS).where(THREADS.c.id == thread_id).with_for_update()
    )
    return cast("Row | None", result.mappings().first())


def _assert_owned(row: Row, owner: str) -> None:
    """Raises NotFound where it is another owner's."""
    if row["owner"] != owner:
        raise NotFound(f"There is no thread {row['id']}.")


def _assert_free(row: Row, owner: str) -> None:
    """As `_assert_owned`; raises ThreadBusy where a run is under way."""
    _assert_owned(row, owner)
    if row["run_id"] is not None and (row["busy_until"] or 0) > now():
        raise ThreadBusy(row["id"])
