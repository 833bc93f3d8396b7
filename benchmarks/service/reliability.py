"""What the service does with more questions than it can answer.

    python -m benchmarks.service.reliability [--seconds 30] [--out benchmarks/reliability.json]

Starts the service on the handbook with embedded defaults, on loopback and without a web search, and
asks it: one question after the other, as many at once as it takes, then questions that arrive by
chance (Poisson) at one to ten times that capacity; then 64 at once. Questions are never repeated,
for grades are kept. Figures go to --out, the report beside it. The machine that asks is the one
that answers: its share counts against the service.
"""

import argparse
import asyncio
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from benchmarks.report import DOCS, FOLDER, Figures, filled, measured_when, write
from benchmarks.service.process import question, serving

PORT = 8131
URL = f"http://127.0.0.1:{PORT}"
LOADS = (1, 2, 3, 5, 10)
WARM_UP_S = 8.0
AT_ONCE = 64
FIGURES = FOLDER / "reliability.json"
Row = tuple[str, float, float]


async def ask(client: httpx.AsyncClient, rows: list[Row]) -> None:
    """Adds what came of one question, after how many seconds, and when."""
    started = time.perf_counter()
    try:
        reply = await client.post("/ask", json={"question": question()})
        said = str(reply.status_code)
        if reply.is_success and reply.json()["stopped_by"] == "deadline":
            said = "deadline"
        if reply.status_code == 503 and "retry-after" not in reply.headers:
            said = "503 without Retry-After"
    except httpx.TransportError as error:
        said = type(error).__name__
    ended = time.perf_counter()
    rows.append((said, ended - started, ended))


async def closed(client: httpx.AsyncClient, at_once: int, seconds: float) -> Figures:
    """So many clients, each asking as soon as it has an answer."""
    rows: list[Row] = []
    ends = time.perf_counter() + seconds

    async def one() -> None:
        while time.perf_counter() < ends:
            await ask(client, rows)

    await asyncio.gather(*(one() for _ in range(at_once)))
    return summed(rows, ends - seconds, ends)


async def arriving(client: httpx.AsyncClient, rate: float, seconds: float) -> Figures:
    """Questions that come at this rate (1/s) whatever became of those before."""
    rows: list[Row] = []
    dice = random.Random(1)
    ends = time.perf_counter() + seconds
    async with asyncio.TaskGroup() as group:
        while time.perf_counter() < ends:
            group.create_task(ask(client, rows))
            await asyncio.sleep(dice.expovariate(rate))
    return summed(rows, ends - seconds, ends)


async def together(client: httpx.AsyncClient, many: int) -> Figures:
    rows: list[Row] = []
    started = time.perf_counter()
    await asyncio.gather(*(ask(client, rows) for _ in range(many)))
    return summed(rows, started, time.perf_counter())


def summed(rows: Sequence[Row], began: float, ended: float) -> Figures:
    """`goodput` counts what was answered between both, not what was still waiting then."""
    answered = sorted(took for said, took, _ in rows if said == "200")
    refused = sorted(took for said, took, _ in rows if said in ("429", "503"))
    in_time = sum(said == "200" and at <= ended for said, _, at in rows)
    return {
        "asked": len(rows),
        "said": dict(Counter(said for said, *_ in rows)),
        "goodput": round(in_time / (ended - began), 2),
        "p50_s": quantile(answered, 0.5),
        "p95_s": quantile(answered, 0.95),
        "p99_s": quantile(answered, 0.99),
        "refused_p99_s": quantile(refused, 0.99),
    }


def quantile(ordered: Sequence[float], share: float) -> float | None:
    return round(ordered[math.ceil(share * len(ordered)) - 1], 3) if ordered else None


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


async def measured(pid: int, seconds: float) -> Figures:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=URL, timeout=120, limits=limits, trust_env=False
    ) as client:
        await closed(client, 2, WARM_UP_S)
        figures: Figures = {"cores": os.cpu_count(), "alone": await closed(client, 1, seconds)}
        full = [await closed(client, many, seconds) for many in (2, 4)]
        figures["capacity"] = max(one["goodput"] for one in (figures["alone"], *full))
        figures["memory_before_mb"] = resident_mb(pid)
        figures["loads"] = {}
        for load in LOADS:
            lasting = 2 * seconds if load == 5 else seconds
            figures["loads"][load] = await arriving(client, load * figures["capacity"], lasting)
            figures["loads"][load]["memory_mb"] = resident_mb(pid)
            sys.stderr.write(f"{load}x: {figures['loads'][load]}\n")
        await asyncio.sleep(3)
        figures["at_once"] = await together(client, AT_ONCE)
    return figures


def report(figures: Figures) -> str:
    return filled("service/reliability.md.j2", figures, at_once=AT_ONCE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each load")
    parser.add_argument("--out", type=Path, default=FIGURES)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), PORT, [DOCS]) as pid:
        figures = asyncio.run(measured(pid, chosen.seconds))
    write(chosen.out, {"measured": measured_when(), **figures}, report)


if __name__ == "__main__":
    main()
