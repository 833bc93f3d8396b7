"""The right to write to an index: one process at a time has it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from app.retrieval.index import IndexUnusable, make_folder

LOCK_TIMEOUT_S = 60.0
ASK_EVERY_S = 0.05


class IngestBusy(Exception):
    """Another process is writing to the same knowledge base."""


@asynccontextmanager
async def writing(folder: Path, wait_s: float | None = None) -> AsyncIterator[None]:
    """The right to write to the index in `folder`. Raises IngestBusy, IndexUnusable."""
    lock = FileLock(lock_file(folder), timeout=0, thread_local=False)
    await _acquire(lock, LOCK_TIMEOUT_S if wait_s is None else wait_s)
    try:
        yield
    finally:
        lock.release()


def lock_file(folder: Path) -> Path:
    make_folder(folder.parent)
    return folder.with_name(folder.name + ".lock")


async def _acquire(lock: FileLock, within_s: float) -> None:
    """Asks again and again: whoever waited in a thread would keep it from those who search."""
    running = asyncio.get_running_loop()
    until = running.time() + within_s
    while True:
        try:
            lock.acquire()
        except Timeout as error:
            if running.time() >= until:
                raise IngestBusy(
                    "another process is writing to this knowledge base; try again when it has ended"
                ) from error
        except OSError as error:
            raise IndexUnusable(f"{lock.lock_file} cannot be written: {error.strerror}") from error
        else:
            return
        await asyncio.sleep(ASK_EVERY_S)
