"""Documents read in processes of their own: the same rows, and bounds that hold."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from app.ingest import sandbox as module
from app.ingest.chunker import Chunking
from app.ingest.loaders.document import DocumentRefused
from app.ingest.rows import encoded, file_rows
from app.ingest.sandbox import ParserProcess, ParseTask, Sandbox
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.tokenizer import Segmenter
from tests.app.ingest.hostile_parsers import bloats, spins, waits


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    started = Sandbox(tmp_path / "cache", max_processes=1)
    yield started
    await started.aclose()


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parser processes that never answer."""
    monkeypatch.setattr(module, "serve_rows", waits)


def task(file: Path, embed: bool = False) -> ParseTask:
    return ParseTask(str(file), file.name, str(file), "", embed, Chunking())


async def test_rows_and_refusals_are_those_that_are_made_here(
    sandbox: Sandbox, tmp_path: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> None:
    file, empty, loop = (tmp_path / name for name in ("page.md", "empty.md", "loop.md"))
    file.write_text(
        "# Pump\n\nIt was serviced in March.\n\n## 阀门\n\n阀门在夜里打开。\n\n" + "Words. " * 900,
        "utf-8",
    )
    empty.touch()
    loop.symlink_to(loop)
    here = encoded(file_rows(file, file.name, str(file)), embedder, segmenter)
    there = await sandbox.rows(task(file, embed=True))
    assert len(there) > 1
    for ours, theirs in zip(here, there, strict=True):
        assert np.array_equal(ours.pop("vector"), theirs.pop("vector"))
        assert ours | {"added_at": ""} == theirs | {"added_at": ""}
    assert all("vector" not in row for row in await sandbox.rows(task(file)))
    for refused, may_pass in ((empty, False), (loop, True)):
        with pytest.raises(DocumentRefused) as refusal:
            await sandbox.rows(task(refused))
        assert refusal.value.may_pass is may_pass
    (parser,) = sandbox._idle
    assert parser.documents == 4, "one process has read them all"
    assert parser.process.pid is not None
    os.kill(parser.process.pid, signal.SIGKILL)
    with pytest.raises(DocumentRefused, match="the parser crashed on this file"):
        await sandbox.rows(task(file))
    assert sandbox._idle == []


@pytest.mark.usefixtures("hangs")
async def test_a_process_that_hangs_is_ended(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.1)
    with pytest.raises(DocumentRefused, match=r"takes longer than 0\.1 s"):
        await sandbox.rows(task(tmp_path / "page.md"))
    assert sandbox._idle == []


@pytest.mark.usefixtures("hangs")
async def test_whoever_stops_waiting_ends_the_process(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int | None] = []
    close = ParserProcess.close

    def closed(parser: ParserProcess) -> None:
        close(parser)
        ended.append(parser.process.exitcode)

    monkeypatch.setattr(ParserProcess, "close", closed)
    reading = asyncio.create_task(sandbox.rows(task(tmp_path / "page.md")))
    await asyncio.sleep(0.05)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert ended[0] == -signal.SIGKILL


@pytest.mark.parametrize(
    ("serve", "reason"),
    [(spins, "s of computing to be read; split it"), (bloats, "GB of memory to be read; split it")],
)
def test_computing_and_memory_are_bounded(tmp_path: Path, serve: object, reason: str) -> None:
    parser = ParserProcess(tmp_path, serve)  # type: ignore[arg-type]
    unbounded = threading.Timer(60, parser.process.kill)  # refused for another reason then
    unbounded.start()
    try:
        with pytest.raises(DocumentRefused, match=reason):
            parser.rows(task(tmp_path / "a.md"))
    finally:
        unbounded.cancel()
    assert parser.is_spent


def test_a_document_may_compute_as_long_as_its_size_needs(tmp_path: Path) -> None:
    small, large = tmp_path / "small.md", tmp_path / "large.md"
    small.write_text("[\n" * 10, "utf-8")
    large.write_bytes(bytes(20_000_000))

    assert [module.cpu_s(task(it)) for it in (tmp_path / "none.md", small, large)] == [30, 30, 130]


def test_no_process_outlives_the_one_that_started_it() -> None:
    code = "from tests.app.ingest.hostile_parsers import orphan; orphan()"
    died = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert died.returncode == -signal.SIGKILL
    state = Path("/proc", died.stdout.decode(), "status")
    give_up_at = time.monotonic() + 20
    while state.exists() and "State:\tZ" not in state.read_text("utf-8"):
        assert time.monotonic() < give_up_at, "it runs on"
        time.sleep(0.02)
