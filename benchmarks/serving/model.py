"""The worker's arithmetic: against one row at a time, and a question asked again."""

import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from benchmarks.report import Figures
from evaluator import bench
from evaluator.bench import Batch, Watched
from evaluator.client import EvaluatorClient
from evaluator.errors import WeightsError
from evaluator.inference.scorer import Ids, Scorer, load_scorer
from evaluator.model.checkpoint import check_folder, load_thresholds
from evaluator.schema import LABELS, Row, RowScore, Task
from evaluator.serving.app import create_app
from evaluator.serving.batching import Limits
from evaluator.settings import EvaluatorSettings

LONGEST = 512  # what the authors' own code pads every row to


@dataclass(frozen=True)
class Workload:
    """One question with what is graded for it."""

    question: str
    passages: tuple[str, ...]
    strips: tuple[str, ...]


class Texts(bench.Texts):
    """Random texts, also as whole questions of a run."""

    def workload(self, passages: int = 10, strips: int = 30) -> Workload:
        language = self.language()
        return Workload(
            self.question(language),
            tuple(self.passage(language) for _ in range(passages)),
            tuple(self.strip(language) for _ in range(strips)),
        )


@dataclass(frozen=True)
class Plan:
    """How much is measured: repetitions of a comparison, requests, seconds, the grid."""

    repetitions: int = 5
    requests: int = 400
    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    most_tokens: int = 1536
    times: int = 3
    questions: int = 40
    at_once: int = 32
    unloaded: int = 30
    minutes: float = 10.0
    full_request: int = 1024
    seed: int = 1


QUICK = Plan(2, 24, (1, 4, 8), (32, 128, 256), 1024, 2, 16, 8, 8, 0.1, 64)


class Hollow(Watched):
    """A scorer that tokenizes and remembers its batches, and computes nothing."""

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        lengths = [len(row.ids) for row in rows]
        self.batches.append(Batch(len(rows), max(lengths), sum(lengths), 0.0))
        return [RowScore(0.0, LABELS[task][0], {})] * len(rows)


@contextlib.asynccontextmanager
async def worker_around(
    settings: EvaluatorSettings | None, *scorers: Scorer, cached_pairs: int = 0
) -> AsyncIterator[EvaluatorClient]:
    """A client of the real worker in this process; a score known already would cost nothing."""
    app = create_app(settings, *scorers, limits=Limits(cached_pairs=cached_pairs))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://evaluator", timeout=None) as http,
    ):
        yield EvaluatorClient(http)


async def on_grading(settings: EvaluatorSettings, plan: Plan) -> Figures:
    """One question's passages and strips: two requests against a row at a time, padded."""
    scorer, texts = load_scorer(settings), Texts(plan.seed)
    width = min(LONGEST, int(check_folder(settings.weights).get("max_length", LONGEST)))
    together, alone = list[float](), list[float]()
    differences, equal = list[float](), list[bool]()
    same = _same_verdict(settings)
    async with worker_around(settings, scorer) as client:
        for turn in range(-1, plan.repetitions):  # the first one warms up and is not counted
            asked = texts.workload()
            if turn % 2:
                before_s, first = _one_by_one(scorer, asked, width)
            took_s, second = await _by_requests(client, asked)
            if not turn % 2:
                before_s, first = _one_by_one(scorer, asked, width)
            if turn < 0:
                continue
            together.append(took_s)
            alone.append(before_s)
            differences += [abs(a[0] - b[0]) for a, b in zip(first, second, strict=True)]
            equal += [same(a, b) for a, b in zip(first, second, strict=True)]
    return {
        "padded_to": width,
        "worker_cpu_s": statistics.median(together),
        "one_by_one_cpu_s": statistics.median(alone),
        "ratio": statistics.median(a / b for a, b in zip(alone, together, strict=True)),
        "most_difference": max(differences),
        "pairs": len(equal),
        "equal_verdicts": sum(equal),
    }


Verdict = tuple[float, str]


async def _by_requests(client: EvaluatorClient, asked: Workload) -> tuple[float, list[Verdict]]:
    """CPU seconds of this process, user and system, all threads; and the verdicts."""
    started = time.process_time()
    found = list[Verdict]()
    for texts in (asked.passages, asked.strips):
        response = await client.score("relevance", [(asked.question, text) for text in texts])
        found += [(score or 0.0, label or "") for score, label
                  in zip(response.scores, response.labels, strict=True)]  # fmt: skip
    return time.process_time() - started, found


def _one_by_one(scorer: Scorer, asked: Workload, width: int) -> tuple[float, list[Verdict]]:
    started = time.process_time()
    found = list[Verdict]()
    with padded_to(width, scorer):
        for text in (*asked.passages, *asked.strips):
            (row,) = scorer.encode("relevance", [(asked.question, text)])
            (result,) = scorer.forward("relevance", [row]) if isinstance(row, Row) else [row]
            found.append((0.0, "") if isinstance(result, str) else (result.score, result.label))
    return time.process_time() - started, found


async def on_repeated(settings: EvaluatorSettings, scorer: Scorer, plan: Plan) -> Figures:
    """One question graded twice by a worker that keeps scores: forwards and CPU seconds."""
    watched, asked = Watched(scorer), Texts(plan.seed).workload()
    async with worker_around(settings, watched, cached_pairs=Limits().cached_pairs) as client:
        watched.batches.clear()
        first_s, first = await _by_requests(client, asked)
        forwards = len(watched.batches)
        again_s, again = await _by_requests(client, asked)
    return {
        "pairs": len(first),
        "forwards": [forwards, len(watched.batches) - forwards],
        "cpu_s": [first_s, again_s],
        "same": first == again,
    }


@contextlib.contextmanager
def padded_to(width: int, scorer: Scorer) -> Iterator[None]:
    """Meanwhile the scorer pads to so many tokens: the same network, fed in the simplest way."""

    def wide(rows: Sequence[Row]) -> tuple[Ids, Ids]:
        ids, mask = padded(rows)
        room = ((0, 0), (0, width - ids.shape[1]))
        return np.pad(ids, room), np.pad(mask, room)

    backend: Any = sys.modules[type(scorer).__module__]
    padded = backend.padded
    backend.padded = wide
    try:
        yield
    finally:
        backend.padded = padded


def _same_verdict(settings: EvaluatorSettings) -> Callable[[Verdict, Verdict], bool]:
    """Whether label and side of each threshold agree; of weights without any, the label."""
    try:
        found = load_thresholds(settings.weights, allow_foreign=True)
        limits: tuple[float, ...] = (found.upper, found.lower, found.strip_floor)
    except WeightsError:
        limits = ()
    return lambda a, b: a[1] == b[1] and all((a[0] >= t) == (b[0] >= t) for t in limits)
