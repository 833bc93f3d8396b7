"""Feeds the model: requests in, tokenised, batch by batch through the model, answers out."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from evaluator.errors import Overloaded
from evaluator.inference.scorer import Row, RowScore, Scorer
from evaluator.schema import RowError, ScoreResponse, Task
from evaluator.serving.batch_scheduler import Entry, Job, Turns
from evaluator.serving.bisect import by_halves
from evaluator.serving.load_shedding import Admission
from evaluator.serving.metrics import Metrics
from evaluator.serving.score_cache import ScoreCache

BARREN_BATCHES = 3  # in a row without a score, before the model is tried with a pair of our own
ENCODED_AT_ONCE = 64  # pairs; a small request is tokenised between two parts of a large one

Pair = tuple[str, str]


@dataclass(frozen=True)
class _Computed:
    results: dict[Entry, RowScore | str]
    started: float
    took_s: float

    def tell(self, metrics: Metrics) -> None:
        lengths = [entry.length for entry in self.results]
        padded = len(lengths) * max(lengths)
        metrics.batches.inc()
        metrics.batch_seconds.observe(self.took_s)
        metrics.batch_tokens.observe(padded)
        metrics.tokens.inc(sum(lengths))
        metrics.padding.inc(padded - sum(lengths))


class Batcher:
    """Lets requests in (see Admission) and feeds the model one batch after another.

    Its two threads are its own: slow work elsewhere in the process holds up no scoring.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        batch_tokens: int,
        max_queued_pairs: int,
        cached_pairs: int = 0,
        metrics: Metrics | None = None,
    ) -> None:
        self.scorer = scorer
        self.ended: Exception | None = None  # what requests are told once nothing is computed
        self._admission = Admission(max_queued_pairs)
        self._being_encoded = 0  # requests
        self._barren = 0  # batches in a row without a score
        self._cache = ScoreCache(cached_pairs)
        self._metrics = metrics or Metrics()
        self._turns = Turns(batch_tokens)
        self._arrived = asyncio.Event()
        self._encoding = ThreadPoolExecutor(1, "evaluator-encoding")
        self._model = ThreadPoolExecutor(1, "evaluator-model")

    @property
    def queued_pairs(self) -> int:
        return self._admission.pairs

    @property
    def queue_places(self) -> int:
        return self._admission.places

    async def score(self, task: Task, pairs: Sequence[Pair]) -> ScoreResponse:
        """Judge the pairs; Overloaded when those not known are not let in, most often at once."""
        job = self._job(task, pairs)
        unknown = job.results.count(None)
        with self._admitted(unknown):
            self._metrics.hits.inc(len(pairs) - unknown)
            self._metrics.misses.inc(unknown)
            try:
                await self._encode(job, pairs)
                self._turns.add(job)
                self._arrived.set()
                await job.done
            finally:
                self._leave(job)
        self._metrics.queue_seconds.observe(job.queue_ms / 1000)
        return _response(job, self.scorer.name)

    async def works(self) -> bool:
        """Whether the model scores at all.

        After batches without any score it is tried with a pair that nobody asked: theirs may be at
        fault, and a worker that is not ready is asked nothing that could show it well again.
        """
        if self._barren < BARREN_BATCHES:
            return True
        pair = ("Does it work?", f"It works at {time.perf_counter()}.")
        try:
            return not (await self.score(self.scorer.tasks[0], [pair])).errors
        except Overloaded:
            return False  # with no place for a pair, nothing shows that it scores again

    def _job(self, task: Task, pairs: Sequence[Pair]) -> Job:
        """The request with what the cache knows filled in."""
        done = asyncio.get_running_loop().create_future()
        job = Job(task, [None] * len(pairs), done, time.perf_counter())
        for index, pair in enumerate(pairs):
            key = self._cache.key(task, pair)
            job.results[index] = known = self._cache.get(key)
            if known is None:
                job.missing.setdefault(key, []).append(index)
                job.pairs += 1
        if not job.missing:
            done.set_result(None)
        return job

    @contextlib.contextmanager
    def _admitted(self, pairs: int) -> Iterator[None]:
        try:
            self._admission.enter(pairs, bool(self._being_encoded or self._turns.waiting))
        except Overloaded:
            self._shed()
            raise
        try:
            yield
        finally:
            self._admission.leave(pairs)

    def _shed(self) -> None:
        """Refuse those on whom the queue has closed, the last to come first.

        Some of their pairs may be computed already: a cache keeps these.
        """
        over = self._admission.pairs - self._admission.places
        for job in reversed(self._turns.waiting[1:]):  # one may always wait
            if over <= 0:
                return
            job.done.set_exception(self._admission.refusal())
            over -= job.pairs

    async def _encode(self, job: Job, pairs: Sequence[Pair]) -> None:
        """Tokenise what no other request has under way, and wait for the rest with them."""
        self._being_encoded += 1
        try:
            await self._encode_fresh(job, pairs)
        finally:
            self._being_encoded -= 1
        self._refuse_when_ended()

    async def _encode_fresh(self, job: Job, pairs: Sequence[Pair]) -> None:
        loop, encode = asyncio.get_running_loop(), partial(self.scorer.encode, job.task)
        fresh = [key for key in job.missing if not self._cache.join(key, job)]
        for start in range(0, len(fresh), ENCODED_AT_ONCE):
            keys = fresh[start : start + ENCODED_AT_ONCE]
            part = [pairs[job.missing[key][0]] for key in keys]
            self._refuse_when_ended()
            rows = await loop.run_in_executor(self._encoding, by_halves, encode, part, "tokenizer")
            for key, row in zip(keys, rows, strict=True):
                if isinstance(row, str):
                    job.settle(key, row)
                elif not self._cache.join(key, job):  # it may have come in meanwhile
                    entry = Entry(key, job.task, row)
                    entry.join(job)
                    job.tokens += entry.length
                    self._cache.begin(entry)

    def _refuse_when_ended(self) -> None:
        if self.ended:
            raise self.ended

    def _leave(self, job: Job) -> None:
        """Answered or not, nobody waits for it any more; what nobody else wants is given up."""
        job.done.cancel()
        self._turns.remove(job)
        for entry in job.waiting:
            if not entry.wanted:
                self._cache.end(entry)
        job.waiting.clear()

    async def run(self) -> None:
        """Work the queue until cancelled; what arrives meanwhile is seen after every batch."""
        told: Exception = Overloaded(retry_after_s=1)
        try:
            await self._work()
        except Exception as error:
            told = error
            raise
        finally:
            self.ended = told
            for job in self._turns.jobs:  # nobody will compute these any more
                if not job.done.done():
                    job.done.set_exception(told)
            self._encoding.shutdown(wait=False)
            self._model.shutdown(wait=False)

    async def _work(self) -> None:
        # No batch is chosen ahead: between two batches the model waits 0.5 to 0.8 ms, with 40 as
        # with 1280 pairs queued, and choosing ahead left it at that, since most of it is the way
        # through two threads. It would cost newcomers one batch, and batches their late rows.
        loop = asyncio.get_running_loop()
        while True:
            if batch := self._turns.next_batch():
                self._deliver(await loop.run_in_executor(self._model, self._forward, batch))
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def _forward(self, batch: Sequence[Entry]) -> _Computed:
        started = time.perf_counter()
        forward = partial(self.scorer.forward, batch[0].task)
        results = by_halves(forward, [entry.row for entry in batch], "model")
        took_s = time.perf_counter() - started
        return _Computed(dict(zip(batch, results, strict=True)), started, took_s)

    def _deliver(self, computed: _Computed) -> None:
        computed.tell(self._metrics)
        has_scores = any(isinstance(result, RowScore) for result in computed.results.values())
        self._barren = 0 if has_scores else self._barren + 1
        self._admission.computed(len(computed.results), computed.took_s)
        for job in {job for entry in computed.results for job in entry.jobs}:
            job.queue_ms = max(job.queue_ms, (computed.started - job.asked_at) * 1000)
            job.inference_ms += computed.took_s * 1000
        for entry, result in computed.results.items():
            self._cache.end(entry, result)
            for job in entry.jobs:
                job.settle(entry.key, result)


def _response(job: Job, model: str) -> ScoreResponse:
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
