"""Batches bounded by padded tokens, sorted by length, computed in one worker thread."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluator.errors import Overloaded
from evaluator.schema import RowError, ScoreResponse, Task
from evaluator.scoring import Row, RowScore, Scorer


@dataclass(eq=False)
class _Job:
    """One request's rows on their way through the queue."""

    task: Task
    results: list[RowScore | str | None]
    done: asyncio.Future[None]
    asked_at: float
    missing: int = 0
    tokens: int = 0
    queue_ms: float = 0.0
    inference_ms: float = 0.0


@dataclass(frozen=True)
class _Waiting:
    job: _Job = field(repr=False)
    index: int
    row: Row


class Batcher:
    """Takes requests while permits last and feeds the model one batch after another."""

    def __init__(self, scorer: Scorer, *, batch_tokens: int, max_queued_pairs: int) -> None:
        self.scorer = scorer
        self._batch_tokens = batch_tokens
        self._max_queued_pairs = max_queued_pairs
        self._permits_taken = 0
        self._waiting: list[_Waiting] = []
        self._open_jobs: set[_Job] = set()
        self._arrived = asyncio.Event()

    @property
    def queued_pairs(self) -> int:
        return self._permits_taken

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> ScoreResponse:
        """Judge the pairs; Overloaded at once when the queue has no room for all of them."""
        if self._permits_taken + len(pairs) > self._max_queued_pairs:
            raise Overloaded(retry_after_s=1)
        self._permits_taken += len(pairs)
        try:
            job = await self._enqueue(task, pairs)
            try:
                await job.done
            finally:
                self._open_jobs.discard(job)
        finally:
            self._permits_taken -= len(pairs)
        return _response(job, self.scorer.name)

    async def _enqueue(self, task: Task, pairs: Sequence[tuple[str, str]]) -> _Job:
        encoded = await asyncio.to_thread(self.scorer.encode, task, pairs)
        done = asyncio.get_running_loop().create_future()
        job = _Job(task, [None] * len(encoded), done, asked_at=time.perf_counter())
        for index, row in enumerate(encoded):
            if isinstance(row, str):
                job.results[index] = row
                continue
            self._waiting.append(_Waiting(job, index, row))
            job.missing += 1
            job.tokens += len(row.ids)
        self._open_jobs.add(job)
        if job.missing:
            self._arrived.set()
        else:
            job.done.set_result(None)
        return job

    async def run(self) -> None:
        """Work the queue until cancelled; each round takes all that waits."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                rows, self._waiting = self._waiting, []
                for batch in _batches(rows, self._batch_tokens):
                    await self._compute([entry for entry in batch if not entry.job.done.done()])
        finally:
            for job in self._open_jobs:  # nobody will compute these any more
                if not job.done.done():
                    job.done.set_exception(Overloaded(retry_after_s=1))

    async def _compute(self, batch: Sequence[_Waiting]) -> None:
        if not batch:
            return  # everyone who asked has left
        started = time.perf_counter()
        task, rows = batch[0].job.task, [entry.row for entry in batch]
        try:
            results = await asyncio.to_thread(self.scorer.forward, task, rows)
        except Exception as error:  # noqa: BLE001 - told to every waiter, so that none hangs
            for job in {entry.job for entry in batch}:
                if not job.done.done():
                    job.done.set_exception(error)
            return
        took_ms = (time.perf_counter() - started) * 1000
        for job in {entry.job for entry in batch}:
            job.queue_ms = max(job.queue_ms, (started - job.asked_at) * 1000)
            job.inference_ms += took_ms
        for entry, result in zip(batch, results, strict=True):
            _deliver(entry, result)


def _deliver(entry: _Waiting, result: RowScore | str) -> None:
    job = entry.job
    job.results[entry.index] = result
    job.missing -= 1
    if job.missing == 0 and not job.done.done():
        job.done.set_result(None)


def _batches(rows: Sequence[_Waiting], batch_tokens: int) -> list[list[_Waiting]]:
    """Rows of one task a batch, of like length, at most `batch_tokens` once padded."""
    batches: list[list[_Waiting]] = []
    for entry in sorted(rows, key=lambda entry: (entry.job.task, len(entry.row.ids))):
        length = len(entry.row.ids)  # sorted: the newest row is the longest of its batch
        current = batches[-1] if batches else []
        fits = current and (len(current) + 1) * length <= batch_tokens
        if fits and current[0].job.task == entry.job.task:
            current.append(entry)
        else:
            batches.append([entry])
    return batches


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
    scorer: Scorer, task: Task, pairs: Sequence[tuple[str, str]], batch_tokens: int = 4096
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
