"""Soak test: the service under a mixed load for half an hour, and what it holds on to.

    python -m benchmarks.service.soak [--minutes 30] [--clients 2] [--out benchmarks/soak.json]

Starts the service on the handbook, on loopback and without a web search. Clients ask,
stream, leave in the midst of a stream or before an answer, upload and delete documents, talk in
threads and delete them, and detach runs and look at them later. Every ten seconds the memory, open
descriptors, threads, the database's size and the rows of checkpoints are written down. Figures and
slopes go to --out, the report beside it.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import numpy as np

from benchmarks.report import DOCS, FOLDER, Figures, filled, measured_when, write
from benchmarks.service.process import question, serving
from benchmarks.service.reliability import resident_mb

PORT = 8134
URL = f"http://127.0.0.1:{PORT}"
FIGURES = FOLDER / "soak.json"
DATABASE = "selfcrag.db"
SAMPLE_S = 10.0
PAUSE_S = 0.2
SETTLES_S = 20.0
"""After the last request, before the last sample: what runs leave is then gone."""
WARM_UP = 1 / 3
"""Of the samples, left out of slopes: caches fill, threads start."""
MEAN_MIN = 5.0
"""Single samples of memory swing by some 15 MB; means of so many minutes are compared."""
OPTIONS = {"retrieve_k": 5, "deadline_ms": 10_000}
MEASURES = {
    "memory_mb": "resident memory, MB",
    "descriptors": "open descriptors",
    "threads": "threads",
    "database_mb": "database, MB",
    "checkpoint_rows": "rows of checkpoints",
}
_number = count(1)


def body(**fields: Any) -> Figures:
    return {"question": question(), "options": OPTIONS, **fields}


class Clients:
    """What clients do; `said` counts the statuses of their requests by what they did."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http, self.said = http, Counter[str]()
        self._dice = random.Random(1)
        self._detached: list[str] = []
        self._actions: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "ask": (4, self.ask),
            "stream": (3, self.stream),
            "leave a stream": (2, self.leave_stream),
            "leave an answer": (1, self.leave_answer),
            "upload": (1, self.upload),
            "thread": (1, self.thread),
            "detach": (1, self.detach),
            "look": (1, self.look),
        }

    async def until(self, ends_at: float) -> None:
        names = list(self._actions)
        weights = [weight for weight, _ in self._actions.values()]
        while time.monotonic() < ends_at:
            (name,) = self._dice.choices(names, weights)
            try:
                await self._actions[name][1]()
            except httpx.TransportError as error:
                self.said[f"{name}: {type(error).__name__}"] += 1
            await asyncio.sleep(PAUSE_S)

    async def _request(self, name: str, method: str, path: str, **more: Any) -> httpx.Response:
        reply = await self._http.request(method, path, **more)
        self.said[f"{name}: {reply.status_code}"] += 1
        return reply

    async def ask(self) -> None:
        await self._request("ask", "POST", "/ask", json=body())

    async def stream(self) -> None:
        async with self._http.stream("POST", "/ask", json=body(stream=True)) as reply:
            ended = [line async for line in reply.aiter_lines() if line == "event: done"]
        self.said[f"stream: {reply.status_code}{'' if ended else ' without its end'}"] += 1

    async def leave_stream(self) -> None:
        """After a few lines of it."""
        async with self._http.stream("POST", "/ask", json=body(stream=True)) as reply:
            self.said[f"leave a stream: {reply.status_code}"] += 1
            lines = reply.aiter_lines()
            for _ in range(self._dice.randint(1, 60)):
                if await anext(lines, None) is None:
                    break

    async def leave_answer(self) -> None:
        within_s = self._dice.uniform(0.02, 0.3)
        try:
            await self._request("leave an answer", "POST", "/ask", json=body(), timeout=within_s)
        except httpx.ReadTimeout:
            self.said["leave an answer: left"] += 1

    async def upload(self) -> None:
        """A document that is found, then deleted."""
        n = next(_number)
        text = f"# Mill {n}\n\n" + f"The mill number {n} grinds corn for {n} bakers. " * 20
        files = {"files": (f"mill-{n}.md", text.encode(), "text/markdown")}
        reply = await self._request("upload", "POST", "/documents", files=files)
        if reply.is_success:
            for document in reply.json()["report"]["documents"]:
                await self._request("delete", "DELETE", f"/documents/{document['id']}")

    async def thread(self) -> None:
        """Two turns, then it is forgotten."""
        thread_id = f"thread-{next(_number)}"
        for _ in range(2):
            await self._request("thread", "POST", "/ask", json=body(thread_id=thread_id))
        await self._request("forget", "DELETE", f"/threads/{thread_id}")

    async def detach(self) -> None:
        """Leaves a run that goes on, once it has its id."""
        asked = body(stream=True, detach=True)
        async with self._http.stream("POST", "/ask", json=asked) as reply:
            self.said[f"detach: {reply.status_code}"] += 1
            async for line in reply.aiter_lines():
                if line.startswith("data: "):
                    self._detached.append(json.loads(line.removeprefix("data: "))["run_id"])
                    break

    async def look(self) -> None:
        """At the runs, and at one that was left."""
        await self._request("look", "GET", "/runs")
        if self._detached:
            await self._request("look", "GET", f"/runs/{self._detached.pop(0)}")


def sample(pid: int, folder: Path, began: float, asked: int) -> Figures:
    process = Path(f"/proc/{pid}")
    database = folder / DATABASE
    files = [path for path in folder.glob(f"{DATABASE}*") if path.exists()]
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        rows = sum(
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("checkpoints", "writes")
        )
    connection.close()
    return {
        "at_s": round(time.monotonic() - began, 1),
        "requests": asked,
        "memory_mb": resident_mb(pid),
        "descriptors": len(list((process / "fd").iterdir())),
        "threads": len(list((process / "task").iterdir())),
        "database_mb": round(sum(path.stat().st_size for path in files) / 1e6, 2),
        "checkpoint_rows": rows,
    }


async def soaked(pid: int, folder: Path, minutes: float, clients: int) -> Figures:
    limits = httpx.Limits(max_connections=None)
    samples: list[Figures] = []
    async with httpx.AsyncClient(base_url=URL, timeout=60, limits=limits, trust_env=False) as http:
        doing, began = Clients(http), time.monotonic()
        ends_at = began + 60 * minutes

        async def sampling() -> None:
            while time.monotonic() < ends_at:
                samples.append(sample(pid, folder, began, doing.said.total()))
                await asyncio.sleep(SAMPLE_S)

        await asyncio.gather(sampling(), *(doing.until(ends_at) for _ in range(clients)))
    await asyncio.sleep(SETTLES_S)
    return {
        "minutes": minutes,
        "clients": clients,
        "said": dict(sorted(doing.said.items())),
        "slopes_per_hour": {name: slope(samples, name) for name in MEASURES},
        "settled": sample(pid, folder, began, doing.said.total()),
        "samples": samples,
    }


def slope(samples: Sequence[Figures], name: str) -> float | None:
    """Least squares, per hour, after the warm-up."""
    late = samples[round(WARM_UP * len(samples)) :]
    if len(late) < 3:
        return None
    hours = [each["at_s"] / 3600 for each in late]
    return round(float(np.polyfit(hours, [each[name] for each in late], 1)[0]), 2)


def memory_line(samples: Sequence[Figures]) -> str:
    """The means before the end of the warm-up and before the end, and what lies between them."""
    memory = [each["memory_mb"] for each in samples]
    many = round(60 * MEAN_MIN / SAMPLE_S)
    warm_up = memory[: round(WARM_UP * len(memory)) or 1]
    warm, last = fmean(warm_up[-many:]), fmean(memory[-many:])
    return (
        f"Resident memory, mean of {MEAN_MIN:g} minutes: {warm:.0f} MB at the end of the warm-up,"
        f" {last:.0f} MB at the end ({100 * (last / warm - 1):+.1f} %)."
    )


def report(figures: Figures) -> str:
    samples = figures["samples"]
    late = samples[round(WARM_UP * len(samples)) :]
    requests = late[-1]["requests"] - late[0]["requests"]
    hours = (late[-1]["at_s"] - late[0]["at_s"]) / 3600
    return filled(
        "service/soak.md.j2",
        figures,
        warm=late[0],
        per_hour=round(requests / hours) if hours else 0,
        settles_s=SETTLES_S,
        measures=MEASURES,
        memory=memory_line(samples),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--out", type=Path, default=FIGURES)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, serving(Path(place), PORT, [DOCS]) as pid:
        figures = asyncio.run(soaked(pid, Path(place), chosen.minutes, chosen.clients))
    write(chosen.out, {"measured": measured_when(), **figures}, report)


if __name__ == "__main__":
    main()
