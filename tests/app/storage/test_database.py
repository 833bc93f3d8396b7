"""The writer: what cannot be written is given up, and all the rest is written."""

import asyncio
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.engine import URL

from app.storage.database import BatchWriter, now, reading
from app.storage.tables import PROCESSES
from tests.app.test_lasting import opened


@pytest.mark.parametrize("unfit", ["half \ud83d", "半个\ud83d", 2**80])
@pytest.mark.parametrize("flushes", [False, True])
async def test_a_row_that_cannot_be_said_holds_up_nobody(
    tmp_path: Path, unfit: object, flushes: bool
) -> None:
    """Neither those told with it nor those told later."""
    insertion = PROCESSES.insert()

    def row(name: str, host: object) -> dict[str, object]:
        return {"id": name, "host": host, "pid": 1, "seen_at": now()}

    async with opened(tmp_path) as (store, engine):
        for name, host in (("a", "h"), ("b", unfit), ("c", "h")):
            store.writer.add(insertion, row(name, host))
        if flushes:
            await store.writer.flush()
        else:
            await written(store.writer)
        store.writer.add(insertion, row("d", "主机"))
        await written(store.writer)
        async with reading(engine) as connection:
            known = await connection.execute(
                select(PROCESSES.c.id).where(PROCESSES.c.id != store.process)
            )
            assert sorted(known.scalars()) == ["a", "c", "d"]


async def test_a_reader_waits_for_what_came_before_it_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, engine):

        async def tell_on() -> None:
            for n in count():
                row = {"id": f"later {n}", "host": "h", "pid": 1, "seen_at": now()}
                store.writer.add(PROCESSES.insert(), row)
                await asyncio.sleep(0)

        telling = asyncio.create_task(tell_on())
        await asyncio.sleep(0.01)
        before = {"id": "before", "host": "h", "pid": 1, "seen_at": now()}
        store.writer.add(PROCESSES.insert(), before)
        try:
            async with asyncio.timeout(2):
                await store.writer.flush()
            assert store.writer.waiting, "others were told meanwhile"
        finally:
            telling.cancel()
        async with reading(engine) as connection:
            found = select(PROCESSES.c.id).where(PROCESSES.c.id == "before")
            assert await connection.scalar(found) == "before"


async def test_a_database_that_stays_away_is_told_once_at_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.storage.database.RETRY_S", 0.01)
    monkeypatch.setattr("app.storage.database.MAX_RETRY_S", 0.04)
    writer = BatchWriter(URL.create("sqlite+aiosqlite", database=str(tmp_path / "无" / "db")))
    writer.add(PROCESSES.insert(), {"id": "a", "host": "h", "pid": 1, "seen_at": now()})
    async with asyncio.timeout(30):
        while len(caplog.records) < 4:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    await writer.aclose()

    first, *others = caplog.records[:4]
    assert first.exc_info is not None
    assert not any(record.exc_info for record in others)
    for record in caplog.records[:4]:
        assert record.getMessage().startswith("1 rows wait for the database: ")
        assert "\n" not in record.getMessage()


async def written(writer: BatchWriter) -> None:
    """Its own task has taken all that waits."""
    async with asyncio.timeout(30):
        while writer.waiting:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    await writer.flush()
