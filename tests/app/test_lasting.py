"""What survives: a killed process, a full store, a database that fails for a while."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import StartFailed
from app.settings import Settings
from app.storage.database import BatchWriter, database_url, now, open_engine, reading
from app.storage.lifecycle import Store, open_store
from app.storage.tables import EVENTS, PROCESSES, RUNS, THREADS
from graphs.ports import Services
from tests import fakes
from tests.app.crag_runs import begun, runs_of
from tests.app.slow import SlowEvaluator, Waiting
from tests.umbra import CHINESE, ENGLISH, TOWER

GONE_PID = 2**22 + 1
"""Above the most that Linux gives out."""


def parts() -> Services:
    return fakes.services(fakes.FakeRetriever([TOWER]))


@asynccontextmanager
async def opened(folder: Path, **settings: object) -> AsyncIterator[tuple[Store, AsyncEngine]]:
    chosen = Settings(_env_file=None, data_dir=folder, **settings)
    async with open_engine(chosen) as engine, open_store(chosen, engine) as store:
        yield store, engine


async def asked(store: Store, times: int = 1) -> list[str]:
    runs = runs_of(parts(), store, times)
    ids = []
    for _ in range(times):
        run = await begun(runs)
        ids.append(run.id)
        assert [event.name async for _, event in run.follow()][-1] == "done"
    await runs.aclose()
    await store.writer.flush()
    return ids


async def test_a_run_whose_process_is_gone_is_lost(tmp_path: Path) -> None:
    """Its followers are told, and its thread is free."""
    async with opened(tmp_path) as (store, engine):
        (run_id,) = await asked(store)
        async with engine.begin() as connection:
            gone = {"id": "p", "host": socket.gethostname(), "pid": GONE_PID, "seen_at": now()}
            await connection.execute(insert(PROCESSES), gone)
            await connection.execute(update(RUNS).values(status="running", process="p"))
            await connection.execute(update(THREADS).values(run_id=run_id, busy_until=now() + 99))
            await connection.execute(EVENTS.delete().where(EVENTS.c.name.in_(["answer", "done"])))
    async with opened(tmp_path) as (store, engine):
        assert (await store.runs.get(run_id, ""))["status"] == "lost"
        events = await store.runs.events(run_id)
        assert [event.name for event in events[-2:]] == ["error", "done"]
        assert [event.number for event in events] == list(range(len(events)))
        async with reading(engine) as connection:
            assert (await connection.execute(select(THREADS.c.run_id))).scalar() is None


@pytest.mark.parametrize(
    ("host", "pid", "unseen_s"),
    [("another", 1, 60), (socket.gethostname(), os.getpid(), 16)],
    ids=["another machine", "a namesake"],
)
async def test_a_process_elsewhere_is_believed_while_it_is_seen(
    tmp_path: Path, host: str, pid: int, unseen_s: int
) -> None:
    """Replicas may have our host name, and all are process 1; so has whoever came before us."""
    async with opened(tmp_path) as (store, engine):
        (run_id,) = await asked(store)
        other = {"id": "p", "host": host, "pid": pid, "seen_at": now()}
        async with engine.begin() as connection:
            await connection.execute(insert(PROCESSES), other)
            await connection.execute(update(RUNS).values(status="running", process="p"))
        await store.find_lost()
        assert (await store.runs.get(run_id, ""))["status"] == "running"
    async with opened(tmp_path) as (store, engine):
        assert (await store.runs.get(run_id, ""))["status"] == "running"
        async with engine.begin() as connection:
            late = update(PROCESSES).where(PROCESSES.c.id == "p")
            await connection.execute(late.values(seen_at=now() - unseen_s))
        await store.find_lost()
        assert (await store.runs.get(run_id, ""))["status"] == "lost"


async def assert_forgotten_process_comes_back(question: str, folder: Path, address: str) -> None:
    """It stood still for so long that another took it for gone, with its run."""
    services = fakes.services(
        fakes.FakeRetriever([TOWER]), evaluator=SlowEvaluator(waiting=Waiting(0.5))
    )
    async with (
        opened(folder, database_url=address) as (other, engine),
        opened(folder, database_url=address) as (store, _),
    ):
        runs = runs_of(services, store)
        run = await begun(runs, question)
        await asyncio.sleep(0.2)
        await store.writer.flush()
        async with engine.begin() as connection:
            await connection.execute(PROCESSES.delete().where(PROCESSES.c.id == store.process))
        await other.find_lost()
        assert (await other.runs.get(run.id, ""))["status"] == "lost"

        await store.beat()
        async with reading(engine) as connection:
            known = (await connection.execute(select(PROCESSES.c.id))).scalars().all()
        told = [(number, event.name) async for number, event in run.follow()]
        await runs.aclose()
        await store.writer.flush()
        events = await other.runs.events(run.id)
        assert store.process in known
        assert (await other.runs.get(run.id, ""))["status"] == "done"
        assert [(event.number, event.name) for event in events] == told


async def test_a_forgotten_process_comes_back_and_its_run_ends(tmp_path: Path) -> None:
    await assert_forgotten_process_comes_back(CHINESE, tmp_path, "")


async def test_a_turn_is_kept_once_the_database_can_be_written_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, engine):
        runs, thread_id = runs_of(parts(), store), None
        for question, name, away in ((ENGLISH, "turns", "away"), (CHINESE, "away", "turns")):
            async with engine.begin() as connection:
                await connection.execute(text(f"ALTER TABLE {name} RENAME TO {away}"))
            run = await begun(runs, question, thread_id)
            thread_id = run.thread_id
            names = [event.name async for _, event in run.follow()]
            assert names[-2:] == ["answer", "done"]
        await runs.aclose()
        _, turns = await store.threads.get(run.thread_id, "")
        assert [turn["question"] for turn in turns] == [ENGLISH, CHINESE]
        assert [turn["number"] for turn in turns] == [1, 2]


async def test_answers_go_on_while_the_database_fails(tmp_path: Path) -> None:
    """What was told meanwhile is written when it is back."""
    async with opened(tmp_path) as (store, engine):
        async with engine.begin() as connection:
            await connection.execute(text("ALTER TABLE events RENAME TO away"))
        runs = runs_of(parts(), store)
        run = await begun(runs)
        names = [event.name async for _, event in run.follow()]
        assert names[-2:] == ["answer", "done"]
        async with engine.begin() as connection:
            await connection.execute(text("ALTER TABLE away RENAME TO events"))
        await runs.aclose()
        await store.writer.flush()
        assert len(await store.runs.events(run.id)) == len(names)


async def test_a_row_that_the_database_refuses_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, _):
        (run_id,) = await asked(store)
        row = {"run_id": "nobody", "number": 0, "at_ms": 0.0, "name": "run", "data": "{}"}
        insertion = EVENTS.insert()
        store.writer.add(insertion, row)
        store.writer.add(insertion, {**row, "run_id": run_id, "number": 999})
        await store.writer.flush()
        assert (await store.runs.events(run_id, 999))[0].number == 999


async def test_a_long_outage_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.database.MAX_WAITING", 10)
    async with opened(tmp_path) as (_, engine):
        writer = BatchWriter(engine.url)
        insertion = PROCESSES.insert()
        for pid in range(30):
            row = {"id": f"p{pid}", "host": "h", "pid": pid, "seen_at": now()}
            writer.add(insertion, row)
        assert len(writer.waiting) == 10
        await writer.aclose()


@pytest.mark.parametrize(
    ("address", "driver"),
    [
        ("", "sqlite+aiosqlite"),
        ("postgresql://u:p@h/d", "postgresql+psycopg"),
        ("postgres://u:p@h/d", "postgresql+psycopg"),
        ("sqlite:////tmp/x.db", "sqlite+aiosqlite"),
    ],
)
def test_the_database_is_chosen_by_its_address(address: str, driver: str) -> None:
    settings = Settings(_env_file=None, database_url=address)
    assert database_url(settings).drivername == driver


@pytest.mark.parametrize("address", ["no address", "mysql://u:secret@h/d"])
def test_another_database_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(StartFailed, match=r"^SELFCRAG_DATABASE_URL") as refused:
        database_url(Settings(_env_file=None, database_url=address))
    assert "secret" not in str(refused.value)


async def test_a_database_that_cannot_be_used_is_told_without_its_password() -> None:
    address = "postgresql://ann:secret@127.0.0.1:9/d"
    with pytest.raises(StartFailed) as refused:
        async with open_engine(Settings(_env_file=None, database_url=address)):
            pass
    assert "127.0.0.1:9" in str(refused.value)
    assert "secret" not in str(refused.value)
