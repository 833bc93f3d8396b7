"""How many questions a second one, two and four processes at one PostgreSQL answer.

    python -m benchmarks.service.scaling [--seconds 15] [--out benchmarks/scaling.json]

Services with embedded defaults share the handbook's index and a PostgreSQL (Debian's, started
here), each held to its cores; as many clients as keep them busy ask questions that nobody has asked
before. What 10, 100 and 1,000 questions a second need is computed from the figures of one core.
Figures go to --out, the report beside it.
"""

import argparse
import asyncio
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx

from benchmarks.report import DOCS, FOLDER, Figures, filled, write
from benchmarks.service.process import serving
from benchmarks.service.reliability import closed
from tests.app.postgres import postgres
from tests.loopback.server import free_port

FIGURES = FOLDER / "scaling.json"
SETUPS = ((1, 1), (1, 2), (2, 2), (4, 2))
"""Processes, and the cores that they share."""
RATES = (10, 100, 1000)
CLIENTS = 2
"""At each process."""
WARM_UP_S = 5.0
report = partial(filled, "service/scaling.md.j2")


async def load(urls: Sequence[str], seconds: float) -> Figures:
    """All services at once; answers a second, and the longest p95."""
    clients = [httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) for url in urls]
    try:
        await asyncio.gather(*(closed(client, CLIENTS, WARM_UP_S) for client in clients))
        done = await asyncio.gather(*(closed(client, CLIENTS, seconds) for client in clients))
    finally:
        for client in clients:
            await client.aclose()
    return {
        "answers_a_second": round(sum(each["goodput"] for each in done), 2),
        "p95_s": max(each["p95_s"] or 0.0 for each in done),
    }


def measured(seconds: float) -> Figures:
    rows = []
    every = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, postgres() as address:
        for processes, cores in SETUPS:
            if cores > len(every):
                continue
            with ExitStack() as stack:
                ports = [free_port() for _ in range(processes)]
                for port in ports:
                    held = serving(
                        Path(folder), port, [DOCS], every[:cores],
                        database_url=address, log_level="error",
                    )  # fmt: skip
                    stack.enter_context(held)
                urls = [f"http://127.0.0.1:{port}" for port in ports]
                row = {"processes": processes, "cores": cores}
                rows.append({**row, **asyncio.run(load(urls, seconds))})
                sys.stderr.write(f"{rows[-1]}\n")
    per_core = max(row["answers_a_second"] / row["cores"] for row in rows)
    needed = {rate: math.ceil(rate / per_core) for rate in RATES}
    return {"rows": rows, "per_core": round(per_core, 2), "cores_needed": needed}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="of each setup")
    parser.add_argument("--out", type=Path, default=FIGURES)
    chosen = parser.parse_args()
    figures = measured(chosen.seconds)
    write(chosen.out, figures, report)


if __name__ == "__main__":
    main()
