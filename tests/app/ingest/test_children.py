"""Documents read in processes of their own: the same rows, and bounds that hold."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.ingest.child import Task
from app.ingest.children import Children
from app.ingest.errors import DocumentRefused
from app.ingest.rows import encoded, file_rows
from app.retrieval.chunking import Cutting
from app.retrieval.embedders.static import StaticEmbedder
from app.retrieval.tokenizer import Segmenter


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    started = Children(tmp_path / "cache", most=1)
    yield started
    await started.aclose()


def task(file: Path, embed: bool = False) -> Task:
    return Task(str(file), file.name, str(file), "", embed, asdict(Cutting()))


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in {"added_at", "vector"}}
    return kept | {"headings": list(row["headings"])}


async def test_rows_are_those_that_are_made_here(
    children: Children, tmp_path: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> None:
    file = tmp_path / "page.md"
    text = (
        "# Pump\n\nIt was serviced in March.\n\n## 阀门\n\n阀门在夜里打开。\n\n" + "Words. " * 900
    )
    file.write_text(text, "utf-8")
    here = encoded(file_rows(file, file.name, str(file)), embedder, segmenter)
    there = await children.rows(task(file, embed=True))
    assert list(map(comparable, there)) == list(map(comparable, here))
    for ours, theirs in zip(here, there, strict=True):
        assert np.array_equal(ours["vector"], theirs["vector"])
    assert all("vector" not in row for row in await children.rows(task(file)))


async def test_a_process_that_ends_takes_only_its_document_along(
    children: Children, tmp_path: Path
) -> None:
    good = tmp_path / "good.md"
    good.write_text("Words.\n", "utf-8")
    await children.rows(task(good))
    (child,) = children._idle
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(DocumentRefused, match="ended the process"):
        await children.rows(task(good))
    assert len(await children.rows(task(good))) == 1


async def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    children = Children(tmp_path / "cache", most=1, frame_within_s=60)
    file = tmp_path / "page.md"
    file.write_text("Words.\n", "utf-8")
    await children.rows(task(file))
    (child,) = children._idle
    children._within_s = 0.2
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(DocumentRefused, match="takes longer than"):
        await children.rows(task(file))
    assert child.returncode == -signal.SIGKILL
    await children.aclose()


BLOAT = """
from app.ingest import child
child.MEMORY_BYTES = 600_000_000
child.file_rows = lambda *_: [bytes(1_000_000) for _ in range(10_000)]
child.main()
"""


SPIN = """
from app.ingest import child
child.COMPUTING_S = 1

def spin(*_):
    while True:
        pass

child.file_rows = spin
child.main()
"""


async def test_computing_is_bounded(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-W", "ignore", "-c", SPIN, str(tmp_path)], stdin=asyncio.subprocess.PIPE
    )
    await process.communicate(json.dumps(asdict(task(tmp_path / "a.md"))).encode())
    assert process.returncode == -signal.SIGXCPU


async def test_memory_is_bounded(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-W", "ignore", "-c", BLOAT, str(tmp_path)],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(json.dumps(asdict(task(tmp_path / "a.md"))).encode())
    assert b"GB of memory to be read; split it" in out
    assert process.returncode == 0


async def test_a_client_that_leaves_ends_the_reading(children: Children, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("Words.\n", "utf-8")
    await children.rows(task(file))
    (child,) = children._idle
    os.kill(child.pid, signal.SIGSTOP)
    reading = asyncio.create_task(children.rows(task(file)))
    await asyncio.sleep(0.05)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert child.returncode == -signal.SIGKILL
