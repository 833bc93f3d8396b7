"""What is kept no longer: runs too many or too old, and conversations without any."""

from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import NotFound
from app.schemas.runs import FeedbackRequest
from app.storage.database import now, reading
from app.storage.lifecycle import Store
from app.storage.runs import RunFilter
from app.storage.tables import RUNS, THREADS
from tests.app.test_lasting import asked, opened


async def test_the_oldest_runs_without_feedback_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.lifecycle.MAX_RUNS", 2)
    async with opened(tmp_path) as (store, _):
        (first,) = await asked(store)
        await store.runs.judge(first, FeedbackRequest(score=1))
        second, third, fourth = await asked(store, 3)
        await store.tidy()
        rows, total = await store.runs.page("", 10, 0)

        assert [row["id"] for row in rows] == [fourth, third, first]
        assert total == 3
        assert await store.runs.events(second) == [], "with all that was told"
        with pytest.raises(NotFound):
            await store.runs.get(second, "")


async def test_old_runs_go_but_not_those_under_way(tmp_path: Path) -> None:
    async with opened(tmp_path, keep_runs_days=1) as (store, engine):
        old, under_way, new = await asked(store, 3)
        async with engine.begin() as connection:
            aged = update(RUNS).where(RUNS.c.id.in_([old, under_way]))
            await connection.execute(aged.values(created_at=now() - 2 * 86_400))
            working = update(RUNS).where(RUNS.c.id == under_way)
            await connection.execute(working.values(status="running", process=store.process))
        await store.tidy()
        assert {row["id"] for row in (await store.runs.page("", 10, 0))[0]} == {under_way, new}


async def test_a_few_runs_go_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many would keep the process from being seen."""
    for module in ("runs", "lifecycle"):
        monkeypatch.setattr(f"app.storage.{module}.FORGOTTEN_AT_ONCE", 2)
    monkeypatch.setattr("app.storage.lifecycle.MAX_RUNS", 1)
    async with opened(tmp_path) as (store, _):
        *_, latest = await asked(store, 6)
        # The service tidies beside the test, which may find fewer than all six.
        left = [(await store.runs.page("", 10, 0))[1]]
        while await store.tidy():
            left.append((await store.runs.page("", 10, 0))[1])
        assert all(before - after <= 4 for before, after in pairwise(left)), "two each"
        assert (await store.runs.page("", 10, 0))[1] == 1
        assert (await store.runs.get(latest, ""))["id"] == latest


async def assert_idle_conversations_go(folder: Path, address: str) -> None:
    """Those old, without a run left and not busy; a few each time."""
    async with opened(folder, database_url=address, keep_runs_days=1) as (store, engine):
        await asked(store, 5)
        async with reading(engine) as connection:
            ids = (await connection.execute(select(THREADS.c.id))).scalars().all()
        *old, new, busy, judged = ids
        aged = now() - 2 * 86_400
        async with engine.begin() as connection:
            await connection.execute(
                update(RUNS).where(RUNS.c.thread_id != new).values(created_at=aged)
            )
            await connection.execute(
                update(THREADS).where(THREADS.c.id != new).values(updated_at=aged)
            )
            await connection.execute(
                update(THREADS)
                .where(THREADS.c.id == busy)
                .values(run_id="r", busy_until=now() + 99)
            )
        (row,) = (await store.runs.page("", 1, 0, RunFilter(judged)))[0]
        await store.runs.judge(row["id"], FeedbackRequest(score=1))

        assert await kept_turns(store, engine) == dict.fromkeys(ids, 1)
        await store.tidy()
        assert len(await kept_turns(store, engine)) == 4, "one at a time"
        for _ in old:
            await store.tidy()
        assert await kept_turns(store, engine) == {new: 1, busy: 1, judged: 1}
        assert [await store.threads.history(thread_id) for thread_id in old] == [[], []]


async def kept_turns(store: Store, engine: AsyncEngine) -> dict[str, int]:
    async with reading(engine) as connection:
        ids = (await connection.execute(select(THREADS.c.id))).scalars().all()
    return {thread_id: len(await store.threads.history(thread_id)) // 2 for thread_id in ids}


async def test_idle_conversations_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.storage.threads.FORGOTTEN_AT_ONCE", 1)
    await assert_idle_conversations_go(tmp_path, "")
