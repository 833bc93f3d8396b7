import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from filelock import FileLock

from app.retrieval.index import IngestBusy, lock_file, writing


async def written(folder: Path, wait_s: float) -> None:
    async with writing(folder, wait_s):
        pass


async def test_who_waits_takes_no_thread_from_who_searches(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with FileLock(lock_file(folder)):
        waiting = [asyncio.create_task(written(folder, 20)) for _ in range(50)]
        await asyncio.sleep(0.2)
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(int, "7") == 7
    await asyncio.gather(*waiting)


async def test_who_leaves_while_waiting_leaves_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(writing(folder))
        waiting = asyncio.create_task(written(folder, 20))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(IngestBusy):
            await written(folder, 0)
    await written(folder, 0)
