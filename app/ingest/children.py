"""Processes that read documents, each for itself, within bounds of time and memory."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from base64 import b64decode
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from app.ingest.child import COMPUTING_S, TOO_MUCH_MEMORY, Task
from app.ingest.errors import DocumentRefused
from app.ingest.rows import Row

FRAME_WITHIN_S = 900.0
"""Longest wait for a process that may compute no longer than COMPUTING_S."""


class Children:
    """At most `most` processes, started when they are first needed; close them with `aclose`."""

    def __init__(self, cache: Path, most: int, frame_within_s: float = FRAME_WITHIN_S) -> None:
        self._cache = cache
        self._within_s = frame_within_s
        self._free = asyncio.Semaphore(most)
        self._idle: list[Process] = []

    async def rows(self, task: Task) -> list[Row]:
        """The rows of a document. Raises DocumentRefused, also where reading ends the process."""
        async with self._free:
            child = self._idle.pop() if self._idle else await self._start()
            try:
                rows = await self._ask(child, task)
            except DocumentRefused as refusal:
                # Memory that was once used up may stay in pieces.
                if refusal.reason == TOO_MUCH_MEMORY:
                    await _end(child)
                else:
                    self._idle.append(child)
                raise
            except TimeoutError:
                await _end(child)
                reason = f"takes longer than {self._within_s:g} s to be read; split it"
                raise DocumentRefused(reason) from None
            except (asyncio.IncompleteReadError, OSError):
                await _end(child)
                reason = "damaged: reading it ended the process that did"
                if child.returncode == -signal.SIGXCPU:
                    reason = f"takes more than {COMPUTING_S} s of computing; split it"
                raise DocumentRefused(reason) from None
            except BaseException:
                await _end(child)
                raise
            self._idle.append(child)
            return rows

    async def aclose(self) -> None:
        while self._idle:
            await _end(self._idle.pop())

    async def _start(self) -> Process:
        # One thread each: those of two processes would wait for each other's cores.
        command = ["env", "OPENBLAS_NUM_THREADS=1", sys.executable, "-W", "ignore"]
        command += ["-m", "app.ingest.child", str(self._cache)]
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )

    async def _ask(self, child: Process, task: Task) -> list[Row]:
        assert child.stdin is not None
        child.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
        await child.stdin.drain()
        first = await self._frame(child)
        if "refused" in first:
            raise DocumentRefused(first["refused"], may_pass=first["may_pass"])
        rows: list[Row] = []
        while len(rows) < first["rows"]:
            rows += (await self._frame(child))["batch"]
        return rows

    async def _frame(self, child: Process) -> dict[str, Any]:
        assert child.stdout is not None
        async with asyncio.timeout(self._within_s):
            length = int.from_bytes(await child.stdout.readexactly(4))
            body = await child.stdout.readexactly(length)
        frame = await asyncio.to_thread(decoded, body)
        if "failed" in frame:
            raise RuntimeError(f"a reading process failed:\n{frame['failed']}")
        return frame


def decoded(body: bytes) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(body)
    for row in frame.get("batch", []):
        if row.get("vector") is not None:
            row["vector"] = np.frombuffer(b64decode(row["vector"]), dtype=np.float32)
        row["terms"] = row["terms"] and b64decode(row["terms"])
    return frame


async def _end(child: Process) -> None:
    with suppress(ProcessLookupError):
        child.kill()
    await child.wait()
