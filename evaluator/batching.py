"""Batches bounded by padded tokens, of like length, shared fairly between waiting requests."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from evaluator.errors import Overloaded
from evaluator.schema import RowError, ScoreResponse, Task
from evaluator.scoring import Row, RowScore, Scorer

ENCODED_AT_ONCE = 64  # pairs; a small request is tokenised between two parts of a large one
ALIKE = 0.9  # of a batch's width: rows so long cost next to no padding
FILLING = 0.6  # of a batch's width: shorter rows wait for a narrower batch


@dataclass(eq=False)
class _Job:
    """One request's rows on their way through the model."""

    task: Task
    results: list[RowScore | str | None]
    done: asyncio.Future[None]
    asked_at: float
    waiting: list["_Waiting"] = field(default_factory=list)  # longest first
    missing: int = 0
    tokens: int = 0
    queue_ms: float = 0.0
    inference_ms: float = 0.0


@dataclass(frozen=True, eq=False)
class _Waiting:
    job: _Job = field(repr=False)
    index: int
    row: Row

    @property
    def length(self) -> int:
        return len(self.row.ids)


class Batcher:
    """Takes requests while permits last and feeds the model one batch after another.

    Its two threads are its own: slow work elsewhere in the process holds up no scoring.
    """

    def __init__(self, scorer: Scorer, *, batch_tokens: int, max_queued_pairs: int) -> None:
        self.scorer = scorer
        self._batch_tokens = batch_tokens
        self._max_queued_pairs = max_queued_pairs
        self._permits_taken = 0
        self._jobs: list[_Job] = []  # in order of arrival, until whoever asked has left
        self._arrived = asyncio.Event()
        self._oldest_has_turn = False
        self._stopped = False
        self._encoding = ThreadPoolExecutor(1, "evaluator-encoding")
        self._model = ThreadPoolExecutor(1, "evaluator-model")

    @property
    def queued_pairs(self) -> int:
        return self._permits_taken

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> ScoreResponse:
        """Judge the pairs; Overloaded at once when the queue has no room for all of them."""
        if self._permits_taken + len(pairs) > self._max_queued_pairs:
            raise Overloaded(retry_after_s=1)
        self._permits_taken += len(pairs)
        try:
            asked_at = time.perf_counter()
            job = _job(task, await self._encode(task, pairs), asked_at)
            self._jobs.append(job)
            try:
                self._arrived.set()
                await job.done
            finally:
                self._jobs.remove(job)
        finally:
            self._permits_taken -= len(pairs)
        return _response(job, self.scorer.name)

    async def _encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        loop, encoded = asyncio.get_running_loop(), list[Row | str]()
        for start in range(0, len(pairs), ENCODED_AT_ONCE):
            part = pairs[start : start + ENCODED_AT_ONCE]
            self._refuse_when_stopped()
            encoded += await loop.run_in_executor(self._encoding, self.scorer.encode, task, part)
        self._refuse_when_stopped()
        return encoded

    def _refuse_when_stopped(self) -> None:
        if self._stopped:
            raise Overloaded(retry_after_s=1)

    async def run(self) -> None:
        """Work the queue until cancelled; what arrives meanwhile is seen after every batch."""
        try:
            while True:
                if batch := self._next_batch():
                    await self._compute(batch)
                else:
                    self._arrived.clear()
                    await self._arrived.wait()
        finally:
            self._stopped = True
            for job in self._jobs:  # nobody will compute these any more
                if not job.done.done():
                    job.done.set_exception(Overloaded(retry_after_s=1))
            self._encoding.shutdown(wait=False)
            self._model.shutdown(wait=False)

    def _next_batch(self) -> list[_Waiting]:
        """Turns alternate: the request with the fewest tokens left, then the oldest one.

        So a small request overtakes, and no stream of small ones holds a large one up for good.
        """
        jobs = [job for job in self._jobs if job.waiting and not job.done.done()]
        if not jobs:
            return []
        leader = jobs[0] if self._oldest_has_turn else min(jobs, key=_tokens_left)
        self._oldest_has_turn = not self._oldest_has_turn
        mates = [job for job in jobs if job is not leader and job.task == leader.task]
        batch = _batch(leader, mates, self._batch_tokens)
        taken = set(batch)
        for job in {entry.job for entry in batch}:
            job.waiting = [entry for entry in job.waiting if entry not in taken]
        return batch

    async def _compute(self, batch: Sequence[_Waiting]) -> None:
        started = time.perf_counter()
        task, rows = batch[0].job.task, [entry.row for entry in batch]
        jobs = {entry.job for entry in batch}
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._model, self.scorer.forward, task, rows)
        except Exception as error:  # noqa: BLE001 - told to every waiter, so that none hangs
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
            return
        took_ms = (time.perf_counter() - started) * 1000
        for job in jobs:
            job.queue_ms = max(job.queue_ms, (started - job.asked_at) * 1000)
            job.inference_ms += took_ms
        for entry, result in zip(batch, results, strict=True):
            _deliver(entry, result)


def _job(task: Task, encoded: Sequence[Row | str], asked_at: float) -> _Job:
    done = asyncio.get_running_loop().create_future()
    job = _Job(task, [row if isinstance(row, str) else None for row in encoded], done, asked_at)
    job.waiting = [_Waiting(job, i, row) for i, row in enumerate(encoded) if isinstance(row, Row)]
    job.waiting.sort(key=lambda entry: -entry.length)
    job.missing, job.tokens = len(job.waiting), _tokens_left(job)
    if not job.missing:
        done.set_result(None)
    return job


def _tokens_left(job: _Job) -> int:
    return sum(entry.length for entry in job.waiting)


def _batch(leader: _Job, mates: Sequence[_Job], batch_tokens: int) -> list[_Waiting]:
    """As wide as the leader's longest row: its own rows first, then any that fill it well.

    A request that fits into one batch is not split, whatever padding that costs.
    """
    width = leader.waiting[0].length
    room = max(1, batch_tokens // width)
    own = leader.waiting
    if len(leader.results) > room:
        own = [entry for entry in own if entry.length >= ALIKE * width][:room]
    taken = set(own)
    others = [
        entry
        for job in (leader, *mates)
        for entry in job.waiting
        if FILLING * width <= entry.length <= width and entry not in taken
    ]
    others.sort(key=lambda entry: -entry.length)
    return [*own, *others[: room - len(own)]]


def _deliver(entry: _Waiting, result: RowScore | str) -> None:
    job = entry.job
    job.results[entry.index] = result
    job.missing -= 1
    if job.missing == 0 and not job.done.done():
        job.done.set_result(None)


def _response(job: _Job, model: str) -> ScoreResponse:
    judged = [result if isinstance(result, RowScore) else None for result in job.results]
    return ScoreResponse(
        scores=[row.score if row else None for row in judged],
        labels=[row.label if row else None for row in judged],
        probabilities=[row.probabilities if row else None for row in judged],
        model=model,
        tokens=job.tokens,
        queue_ms=round(job.queue_ms, 3),
        inference_ms=round(job.inference_ms, 3),
        errors=[
            RowError(index=index, reason=reason)
            for index, reason in enumerate(job.results)
            if isinstance(reason, str)
        ],
    )


def in_batches(
    scorer: Scorer, task: Task, pairs: Sequence[tuple[str, str]], batch_tokens: int = 1536
) -> list[RowScore | str]:
    """The same without a worker, for commands: each pair's judgement or reason, in order."""
    encoded = scorer.encode(task, pairs)
    results: dict[int, RowScore | str] = {
        index: row for index, row in enumerate(encoded) if isinstance(row, str)
    }
    rows = [(index, row) for index, row in enumerate(encoded) if isinstance(row, Row)]
    rows.sort(key=lambda entry: len(entry[1].ids))
    while rows:
        size = max(1, batch_tokens // len(rows[0][1].ids))
        while size > 1 and size * len(rows[min(size, len(rows)) - 1][1].ids) > batch_tokens:
            size -= 1
        batch, rows = rows[:size], rows[size:]
        judged = scorer.forward(task, [row for _, row in batch])
        results.update(zip((index for index, _ in batch), judged, strict=True))
    return [results[index] for index in range(len(encoded))]
