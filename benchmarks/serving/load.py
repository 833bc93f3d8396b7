"""A worker of its own process under load over HTTP: many questions at once, then far too many."""

import asyncio
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from benchmarks.report import Figures
from benchmarks.service.process import environment, started
from benchmarks.serving.model import Plan, Texts, Workload
from evaluator.settings import EvaluatorSettings
from tests.loopback.server import free_port

OVERLOAD = 5  # times what the worker sustains
MOST_REQUESTS_PER_S = 50  # more pairs a request beyond, so that the client keeps up
START_S = 120.0
LEAST_PAIRS = 10  # a request
SETTLED_S = 60.0  # by then the queue, full at first, has emptied
SERVE = """
import sys, uvicorn
from evaluator.serving.app import create_app
from evaluator.serving.batching import Limits
app = create_app(limits=Limits(cached_pairs=0))  # a score known already would cost nothing
uvicorn.run(app, port=int(sys.argv[1]), timeout_graceful_shutdown=10, log_level="warning")
"""


@dataclass(frozen=True)
class Served:
    """A worker's address and process."""

    url: str
    pid: int


@contextlib.contextmanager
def worker(settings: EvaluatorSettings) -> Iterator[Served]:
    """A worker of these settings as a process of its own, ready; ended afterwards."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    given = settings.model_dump(exclude_unset=True).items()
    env = environment(**{f"evaluator_{name}": value for name, value in given})
    command = [sys.executable, "-c", SERVE, str(port)]
    with started(command, url, env, within_s=START_S) as process:
        yield Served(url, process.pid)


@contextlib.asynccontextmanager
async def http_to(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """A client with as many connections as it takes."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=served.url, timeout=300, limits=limits, trust_env=False
    ) as http:
        yield http


async def on_throughput(served: Served, asked: Sequence[Workload], plan: Plan) -> Figures:
    """So many questions at once, each its passages in one request and then its strips."""
    gate, took = asyncio.Semaphore(plan.at_once), list[float]()

    async def one(http: httpx.AsyncClient, question: Workload) -> None:
        async with gate:
            started = time.perf_counter()
            for part in (question.passages, question.strips):
                pairs = [(question.question, text) for text in part]
                response = await http.post("/score", json={"task": "relevance", "pairs": pairs})
                response.raise_for_status()
            took.append(time.perf_counter() - started)

    async with http_to(served) as http:
        await one(http, asked[0])
        full_s = await _full_request_s(http, plan)
        took.clear()
        started = time.perf_counter()
        await asyncio.gather(*(one(http, question) for question in asked))
        took_s = time.perf_counter() - started
    pairs = sum(len(question.passages) + len(question.strips) for question in asked)
    return {
        "questions": len(asked),
        "at_once": plan.at_once,
        "pairs": pairs,
        "s": took_s,
        "pairs_per_s": pairs / took_s,
        "question_p50_s": float(np.percentile(took, 50)),
        "question_p95_s": float(np.percentile(took, 95)),
        "full_pairs": plan.full_request,
        "full_s": full_s,
    }


async def _full_request_s(http: httpx.AsyncClient, plan: Plan) -> float:
    """Seconds of the largest request a worker takes; it must be answered."""
    body = {"task": "relevance", "pairs": Texts(plan.seed + 3).pairs(plan.full_request)}
    (took_s,) = await _in_turn(http, [body])
    return took_s


async def on_overload(served: Served, sustained: float, plan: Plan) -> Figures:
    """Requests at a steady rate that brings OVERLOAD times the pairs a second it sustains.

    That is `sustained`, or what it scores one request after another if that is more.
    """
    texts, seen = Texts(plan.seed + 1), Seen()
    async with http_to(served) as http:
        size = LEAST_PAIRS
        first = [{"task": "relevance", "pairs": texts.pairs(size)} for _ in range(5)]
        sustained = max(sustained, size * len(first) / sum(await _in_turn(http, first)))
        size = max(size, round(OVERLOAD * sustained / MOST_REQUESTS_PER_S))
        bodies = [{"task": "relevance", "pairs": texts.pairs(size)} for _ in range(100)]
        unloaded = await _in_turn(http, bodies[: plan.unloaded])
        sustained = max(sustained, size * len(unloaded) / sum(unloaded))
        per_s = OVERLOAD * sustained / size
        watching = asyncio.create_task(_watch_memory(served.pid, seen))
        started, sent = time.perf_counter(), set[asyncio.Task[None]]()
        while (now := time.perf_counter() - started) < plan.minutes * 60:
            if len(seen.sent) < now * per_s:
                body = bodies[len(seen.sent) % len(bodies)]
                seen.sent.append(now)
                sent.add(asyncio.create_task(_send(http, body, seen, now)))
                sent = {task for task in sent if not task.done()} if len(sent) > 999 else sent
            else:
                await asyncio.sleep(0.5 / per_s)
        lasted_s = time.perf_counter() - started
        await asyncio.gather(*sent)
        watching.cancel()
        afterwards = await _in_turn(http, bodies[: plan.unloaded])
    return {
        "sustained_pairs_per_s": sustained,
        "pairs_per_request": size,
        "requests_per_s": len(seen.sent) / lasted_s,
        "asked_pairs_per_s": len(seen.sent) * size / lasted_s,
        "minutes": plan.minutes,
        **seen.figures(),
        "unloaded_p50_s": float(np.percentile(unloaded, 50)),
        "unloaded_p95_s": float(np.percentile(unloaded, 95)),
        "afterwards_p95_s": float(np.percentile(afterwards, 95)),
    }


class Seen:
    """What came back under overload, and the worker's memory meanwhile."""

    def __init__(self) -> None:
        self.sent: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.without_retry_after = 0
        self.admitted: list[tuple[float, float]] = []  # sent at, took
        self.refused: list[float] = []
        self.memory: list[tuple[float, float]] = []

    def figures(self) -> Figures:
        return {
            "statuses": dict(self.statuses),
            "refused_without_retry_after": self.without_retry_after,
            "admitted_p50_s": _percentile([took_s for _, took_s in self.admitted], 50),
            "admitted_p95_s": _p95([took_s for _, took_s in self.admitted]),
            "admitted_most_s": max((took_s for _, took_s in self.admitted), default=None),
            "settled_p95_s": _p95([took_s for at, took_s in self.admitted if at > SETTLED_S]),
            "refused_p95_s": _p95(self.refused),
            "memory": _memory(self.memory),
        }


def _p95(values: Sequence[float]) -> float | None:
    return _percentile(values, 95)


def _percentile(values: Sequence[float], share: int) -> float | None:
    return float(np.percentile(values, share)) if values else None


async def _in_turn(http: httpx.AsyncClient, bodies: Sequence[object]) -> list[float]:
    """Seconds of each request, one after another."""
    took = list[float]()
    for body in bodies:
        started = time.perf_counter()
        (await http.post("/score", json=body)).raise_for_status()
        took.append(time.perf_counter() - started)
    return took


async def _send(http: httpx.AsyncClient, body: object, seen: Seen, sent_at: float) -> None:
    started = time.perf_counter()
    try:
        response = await http.post("/score", json=body)
    except httpx.TransportError as error:
        seen.statuses[type(error).__name__] += 1
        return
    seen.statuses[str(response.status_code)] += 1
    took_s = time.perf_counter() - started
    if response.is_success:
        seen.admitted.append((sent_at, took_s))
    else:
        seen.refused.append(took_s)
    if response.status_code == 429 and not response.headers.get("retry-after", "").isdigit():
        seen.without_retry_after += 1


async def _watch_memory(pid: int, seen: Seen) -> None:
    started = time.perf_counter()
    while (resident := _resident_mb(pid)) is not None:
        seen.memory.append((time.perf_counter() - started, resident))
        await asyncio.sleep(1.0)


def _resident_mb(pid: int) -> float | None:
    """The process's memory; None elsewhere than on Linux, or when it has ended."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _memory(seen: Sequence[tuple[float, float]]) -> Figures:
    """Resident megabytes at start, end and most; the slope is of the second half."""
    if not seen:
        return {}
    half = seen[len(seen) // 2 :]
    at, resident = (np.array(column) for column in zip(*half, strict=True))
    slope = float(np.polyfit(at / 60, resident, 1)[0]) if len(half) > 2 else None
    start, end = seen[0][1], seen[-1][1]
    most = max(value for _, value in seen)
    return {"start_mb": start, "end_mb": end, "most_mb": most, "slope_mb_per_minute": slope}
