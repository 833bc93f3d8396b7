"""Measures what the service costs beside its graph, and how quickly it begins and stops.

    python -m benchmarks.service.overhead [--rounds 12] [--times 20] [--only cost|first|stops]

The service runs in a process of its own over parts that answer at once; what counts is the CPU
time of that process, so that clients and other work on the machine do not. Figures go to
benchmarks/overhead.json and from there to the report benchmarks/overhead.md.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from benchmarks.report import FOLDER, ROOT, Figures, filled, write
from benchmarks.service.overhead_parts import PARTS, PORT, QUESTION

Send = Callable[[httpx.AsyncClient, dict[str, Any]], Awaitable[None]]

FIGURES = FOLDER / "overhead.json"
START_S = 300.0
INSIDE = ("ainvoke", "astream", "run", "kept run")
SMALL = "1 passage"
LOADS = {SMALL: {"retrieve_k": 1}, "10 passages": {"retrieve_k": 10}}
ACTION = {"web search": "incorrect"}
AT_ONCE = 5
AIMS = (("POST /ask", 1.5), ("POST /ask, stream", 2.2))
STOPPED_WITHIN_MS = 100


@contextmanager
def service(folder: Path, source: Path) -> Iterator[str]:
    """The address of a service of its own, run from `source`; it ends with the block."""
    command = [sys.executable, "-m", "benchmarks.service.overhead_service", str(folder)]
    process = subprocess.Popen(
        command, cwd=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        port, began_s = folder / PORT, time.monotonic()
        while not port.exists() or not port.read_text(encoding="utf-8"):
            if process.poll() is not None or time.monotonic() - began_s > START_S:
                sys.exit("the service did not start")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port.read_text(encoding='utf-8')}"
    finally:
        process.terminate()
        process.wait(20)


def body(options: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"question": QUESTION, "options": options, **fields}


async def _whole(client: httpx.AsyncClient, options: dict[str, Any]) -> None:
    (await client.post("/ask", json=body(options))).raise_for_status()


async def _streamed(client: httpx.AsyncClient, options: dict[str, Any]) -> None:
    (await client.post("/ask", json=body(options, stream=True))).raise_for_status()


async def _as_openai(client: httpx.AsyncClient, options: dict[str, Any]) -> None:
    turn = {"role": "user", "content": QUESTION}
    asked = {"model": "self_crag", "messages": [turn], "stream": True, "options": options}
    (await client.post("/v1/chat/completions", json=asked)).raise_for_status()


async def _as_ui(client: httpx.AsyncClient, options: dict[str, Any]) -> None:
    turn = {"id": "m", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}
    asked = {"id": os.urandom(8).hex(), "messages": [turn], "options": options}
    (await client.post("/ask/ui", json=asked)).raise_for_status()


OUTSIDE: dict[str, Send] = {
    "POST /ask": _whole,
    "POST /ask, stream": _streamed,
    "POST /v1/chat/completions, stream": _as_openai,
    "POST /ask/ui": _as_ui,
}


async def on_cost(clients: dict[str, httpx.AsyncClient], rounds: int, times: int) -> Figures:
    """CPU ms of one run, way by way; all ways and services take turns, `rounds` times."""
    found: Figures = {
        name: {load: {way: [] for way in (*INSIDE, *OUTSIDE)} for load in LOADS} for name in clients
    }
    for round_ in range(rounds + 1):
        for load, options in LOADS.items():
            for way in (*INSIDE, *OUTSIDE):
                for name, client in clients.items():
                    ms = 1000 * await cpu_s(client, way, options, times) / times
                    if round_:  # the first warms up
                        found[name][load][way].append(round(ms, 3))
    return {"rounds": rounds, "times": times, **found}


async def cpu_s(client: httpx.AsyncClient, way: str, options: dict[str, Any], times: int) -> float:
    """Of the service's process, for `times` runs one after the other."""
    if way in INSIDE:
        asked = {"times": times, "options": options}
        return float((await client.post(f"/inside/runs/{way}", json=asked)).json())
    before_s = (await client.get("/inside/cpu")).json()
    for _ in range(times):
        await OUTSIDE[way](client, options)
    return float((await client.get("/inside/cpu")).json() - before_s)


async def on_first(client: httpx.AsyncClient, seconds: float) -> Figures:
    """Several runs at once, each call of a part taking so long."""
    await client.put("/inside/pace", json=dict.fromkeys(PARTS, seconds))
    found = await asyncio.gather(*(_first(client) for _ in range(AT_ONCE)))
    await client.put("/inside/pace", json={})
    return {"seconds": seconds, "runs": found}


async def _first(client: httpx.AsyncClient) -> Figures:
    began_s, first_s = time.perf_counter(), 0.0
    async with client.stream("POST", "/ask", json=body({}, stream=True)) as response:
        async for line in response.aiter_lines():
            if line == "event: step" and not first_s:
                first_s = time.perf_counter() - began_s
    return {"first_step_s": first_s, "run_s": time.perf_counter() - began_s}


async def on_stops(client: httpx.AsyncClient, times: int) -> Figures:
    """Runs stopped while a part is at work, each part in turn; ms from the client's act on."""
    ways = {"cancelled": _cancelled, "left, stream": _left_stream, "left, JSON": _left_json}
    found: Figures = {}
    for way, stop in ways.items():
        stops = [await stop(client, PARTS[turn % len(PARTS)]) for turn in range(times)]
        found[way] = {name: spread([stopped[name] for stopped in stops]) for name in stops[0]} | {
            "times": times
        }
    await client.put("/inside/pace", json={})
    return found


async def _cancelled(client: httpx.AsyncClient, part: str) -> dict[str, float]:
    async with _at_work(client, part, stream=True) as response:
        lines = response.aiter_lines()
        run_id = ""
        while not run_id:
            line = await anext(lines)
            run_id = json.loads(line[6:])["run_id"] if line.startswith('data: {"run_id"') else ""
        await _until_at_work(client)
        began_s = time.perf_counter()
        await client.post(f"/runs/{run_id}/cancel")
        async for line in lines:
            if line == "event: done":
                told_s = time.perf_counter()
    return {"told": 1000 * (told_s - began_s), **await _ended(client, began_s)}


async def _left_stream(client: httpx.AsyncClient, part: str) -> dict[str, float]:
    async with _at_work(client, part, stream=True):
        await _until_at_work(client)
        began_s = time.perf_counter()
    return await _ended(client, began_s)


async def _left_json(client: httpx.AsyncClient, part: str) -> dict[str, float]:
    await client.put("/inside/pace", json={part: 60})
    asking = asyncio.create_task(client.post("/ask", json=_asked(part)))
    await _until_at_work(client)
    began_s = time.perf_counter()
    asking.cancel()
    await asyncio.wait({asking})
    return await _ended(client, began_s)


@asynccontextmanager
async def _at_work(
    client: httpx.AsyncClient, part: str, **fields: Any
) -> AsyncIterator[httpx.Response]:
    await client.put("/inside/pace", json={part: 60})
    async with client.stream("POST", "/ask", json=_asked(part, **fields)) as response:
        yield response


def _asked(part: str, **fields: Any) -> dict[str, Any]:
    return body({"ablation": {"only_action": ACTION.get(part, "correct")}}, **fields)


async def _until_at_work(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(START_S):
        while not (await client.get("/inside/waiting")).json():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.005)


async def _ended(client: httpx.AsyncClient, began_s: float) -> dict[str, float]:
    end = (await client.get("/inside/end")).json()
    if (await client.get("/inside/waiting")).json():
        raise RuntimeError("a call went on after its run")
    return {
        "let go": 1000 * (end["let_go_at_s"] - began_s),
        "ended": 1000 * (end["ended_at_s"] - began_s),
    }


def report(figures: Figures) -> str:
    """All sections for which there are figures."""
    runs = figures["first"]["runs"] if "first" in figures else []
    return filled(
        "service/overhead.md.j2",
        figures,
        aims=AIMS,
        stopped_within_ms=STOPPED_WITHIN_MS,
        first_ms=[1000 * run["first_step_s"] for run in runs],
        share=max((run["first_step_s"] / run["run_s"] for run in runs), default=0.0),
        median=median,
        ratio=_ratio,
        beyond=_beyond,
    )


def _beyond(ms: list[float], base: list[float]) -> list[float]:
    return [one - other for one, other in zip(ms, base, strict=True)]


def _ratio(ms: list[float], base: list[float]) -> str:
    return f"{median(one / other for one, other in zip(ms, base, strict=True)):.2f}"


def spread(ms: list[float]) -> dict[str, float]:
    """Milliseconds in the middle, at p95, and the most."""
    p95 = quantiles(ms, n=20, method="inclusive")[-1] if len(ms) > 1 else ms[0]
    return {"p50": median(ms), "p95": p95, "most": max(ms)}


async def measure(chosen: argparse.Namespace, figures: Figures) -> None:
    async with AsyncExitStack() as stack:
        sources: dict[str, Path] = {"cpu_ms": ROOT}
        if chosen.before:
            sources["before_ms"] = chosen.before
        clients = {name: await _client(stack, source) for name, source in sources.items()}
        if chosen.only in (None, "cost"):
            figures["cost"] = await on_cost(clients, chosen.rounds, chosen.times)
        if chosen.only in (None, "first"):
            figures["first"] = await on_first(clients["cpu_ms"], chosen.seconds)
        if chosen.only in (None, "stops"):
            figures["stops"] = await on_stops(clients["cpu_ms"], chosen.stops)


async def _client(stack: AsyncExitStack, source: Path) -> httpx.AsyncClient:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    url = stack.enter_context(service(Path(folder), source))
    client = httpx.AsyncClient(base_url=url, timeout=120, trust_env=False)
    await stack.enter_async_context(client)
    for send in OUTSIDE.values():  # what is done once in a process is not a run's cost
        await send(client, {})
    return client


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=["cost", "first", "stops"])
    parser.add_argument("--rounds", type=int, default=12, help="turns of all ways")
    parser.add_argument("--times", type=int, default=20, help="runs a turn")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a part's call, for `first`")
    parser.add_argument("--stops", type=int, default=50, help="runs stopped in each way")
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--out", type=Path, default=FIGURES)
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    chosen = arguments(given)
    out: Path = chosen.out
    figures = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    asyncio.run(measure(chosen, figures))
    write(out, figures, report)


if __name__ == "__main__":
    main()
