"""Opens, renews and locks the index: a folder of this machine, or a Milvus by its address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from app.retrieval.embedder import Embedder
from app.retrieval.index import Encode, Index, IndexUnusable, make_folder

LOCK_TIMEOUT_S = 60.0
LOCK_POLL_S = 0.05


class IngestBusy(Exception):
    """Another process is writing to the same knowledge base."""


async def open_index(folder: Path, embedder: Embedder, url: str = "", token: str = "") -> Index:
    """The index, empty where there is none yet; `folder` is this machine's own in either case.

    Raises IndexMismatch where it was written with another embedder or in another format,
    IndexUnusable where it cannot be read.
    """
    index: Index
    if not url:
        lance = await asyncio.to_thread(_lancedb)
        index = await lance.LanceIndex.open(folder, embedder)
        return index
    await asyncio.to_thread(make_folder, folder.parent)
    index = await _milvus().MilvusIndex.open(url, token, embedder, folder)
    return index


async def renew_index(
    folder: Path, embedder: Embedder, encode: Encode, url: str = "", token: str = ""
) -> int:
    """Writes every row anew as `encode` makes it, and says how many there are.

    Raises IndexUnusable where there is no index or it cannot be read.
    """
    if not url:
        return int(await _lancedb().renew(folder, embedder, encode))
    return int(await asyncio.to_thread(_milvus().renew, url, token, embedder, encode))


def _lancedb() -> Any:
    """The adapter, by name: importing it takes a second, which who only looks need not wait for."""
    return import_module("app.retrieval.lancedb")


def _milvus() -> Any:
    """The adapter, by name: its client is an extra."""
    try:
        return import_module("app.retrieval.milvus")
    except ModuleNotFoundError as error:
        raise IndexUnusable(
            "SELFCRAG_INDEX_URL names a Milvus, whose client is not installed:"
            " pip install 'self-crag[milvus]'"
        ) from error


@asynccontextmanager
async def writing(folder: Path, wait_s: float | None = None) -> AsyncIterator[None]:
    """The right to write to the index in `folder`, which one process at a time has.

    Raises IngestBusy after `wait_s`, by default LOCK_TIMEOUT_S; IndexUnusable.
    """
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
        await asyncio.sleep(LOCK_POLL_S)
