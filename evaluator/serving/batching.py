"""Batching: a bounded queue of requests, whose pairs are packed into padded batches for one model.

A batch is bounded by its padded tokens. Pairs of departed clients are skipped, a failing batch is
bisected, scores are cached, and what finds no room in the queue is refused (HTTP 429).
"""

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from evaluator.errors import Overloaded, TooManyPairs
from evaluator.inference.scorer import Scorer
from evaluator.schema import Row, RowError, RowScore, ScoreResponse, Task
from evaluator.serving.metrics import WorkerMetrics

ALIKE, ALIKE_TOKENS = 0.85, 12
"""Rows so much of a batch's width, or so few tokens shorter, share it: others would pad more than a
batch of their own costs."""
BARREN_BATCHES = 3  # in a row without a score, before the model is tried with a pair of our own
MAX_RETRY_S = 60
ENCODED_AT_ONCE = 64  # pairs; a small request is tokenised between two parts of a large one

Pair = tuple[str, str]
Item = TypeVar("Item")
Result = TypeVar("Result")
_REMEMBERED = 0.95  # of the time an item took so far, at every batch
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What one worker takes; beyond the first and third 413, beyond the second 429."""

    max_pairs: int = 1024
    max_queued_pairs: int = 1280
    max_body_bytes: int = 16_000_000
    cached_pairs: int = 20_000

    def check(self, count: int, what: str) -> None:
        """TooManyPairs for a request of more pairs or texts than one may carry."""
        if count > self.max_pairs:
            raise TooManyPairs(f"{count} {what} in one request; at most {self.max_pairs}.")


class Permits:
    """So many items may wait or run at once: a burst waits, what comes beyond is refused at once.

    One thread, the event loop's.
    """

    def __init__(self, limit: int) -> None:
        self.used = 0
        self._limit = limit
        self._s_per_item = 0.0

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Room for `count` items meanwhile. Raises Overloaded, with when those inside are done."""
        if count and self.used + count > self._limit:
            wait_s = math.ceil(self.used * self._s_per_item)
            raise Overloaded(min(MAX_RETRY_S, max(1, wait_s)))
        self.used += count
        try:
            yield
        finally:
            self.used -= count

    def computed(self, count: int, took_s: float) -> None:
        """So many items took so many seconds."""
        latest = took_s / count
        weight = _REMEMBERED if self._s_per_item else 0.0
        self._s_per_item = weight * self._s_per_item + (1 - weight) * latest


@dataclass(eq=False)
class _Request:
    """One request's pairs on their way through the model."""

    task: Task
    results: list[RowScore | str | None]
    done: asyncio.Future[None]
    arrived_at: float
    missing: dict[Hashable, list[int]] = field(default_factory=dict)  # places in `results`
    tokens: int = 0  # computed because this request came first
    queue_ms: float = 0.0
    inference_ms: float = 0.0

    def settle(self, key: Hashable, result: RowScore | str) -> None:
        """Fill in one pair; with the last one the request is done."""
        for index in self.missing.pop(key, ()):
            self.results[index] = result
        if not self.missing and not self.done.done():
            self.done.set_result(None)


@dataclass(eq=False)
class _Entry:
    """One pair that waits or runs, for every request that asked for it meanwhile."""

    key: Hashable
    row: Row
    requests: list[_Request]
    taken: bool = False

    @property
    def length(self) -> int:
        return len(self.row.ids)


class ScoreCache:
    """The last `size` scores, by digest of task and texts; the least recently used leaves first.

    What failed is tried again. With 0 nothing is kept or shared.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._scores: OrderedDict[Hashable, RowScore] = OrderedDict()

    def key(self, task: Task, pair: Pair) -> Hashable:
        """What the pair is known by; an object equal to no other where nothing is kept."""
        if not self._size:
            return object()
        first, second = (text.encode("utf-8", "surrogatepass") for text in pair)
        text = b"%s %d %s%s" % (task.encode(), len(first), first, second)
        return hashlib.blake2b(text, digest_size=20).digest()

    def get(self, key: Hashable) -> RowScore | None:
        if key in self._scores:
            self._scores.move_to_end(key)
        return self._scores.get(key)

    def keep(self, key: Hashable, result: RowScore | str) -> None:
        if self._size and isinstance(result, RowScore):
            self._scores[key] = result
            if len(self._scores) > self._size:
                self._scores.popitem(last=False)


class Batcher:
    """The queue in front of one model.

    Its two threads are its own: slow work elsewhere in the process holds up no scoring.
    """

    def __init__(
        self, scorer: Scorer, batch_tokens: int, limits: Limits, metrics: WorkerMetrics
    ) -> None:
        self.scorer = scorer
        self.ended: Exception | None = None  # what requests are told once nothing is computed
        self._batch_tokens = batch_tokens
        self._permits = Permits(limits.max_queued_pairs)
        self._cache = ScoreCache(limits.cached_pairs)
        self._metrics = metrics
        self._requests: list[_Request] = []  # encoded, in order of arrival
        self._under_way: dict[Hashable, _Entry] = {}
        self._arrived = asyncio.Event()
        self._oldest_leads = False
        self._barren = 0  # batches in a row without a score
        self._encoding = ThreadPoolExecutor(1, "evaluator-encoding")
        self._model = ThreadPoolExecutor(1, "evaluator-model")

    @property
    def queued_pairs(self) -> int:
        return self._permits.used

    async def score(self, task: Task, pairs: Sequence[Pair]) -> ScoreResponse:
        """Judge the pairs; Overloaded when those not known find no room in the queue."""
        request = self._request(task, pairs)
        unknown = request.results.count(None)
        with self._permits.taken(unknown):
            self._metrics.hits.inc(len(pairs) - unknown)
            self._metrics.misses.inc(unknown)
            try:
                await self._encode(request, pairs)
                self._requests.append(request)
                self._arrived.set()
                await request.done
            finally:
                self._leave(request)
        self._metrics.queue_seconds.observe(request.queue_ms / 1000)
        return _response(request, self.scorer.name)

    async def works(self) -> bool:
        """Whether the model scores; after batches without any score it is tried with a new pair."""
        if self._barren < BARREN_BATCHES:
            return True
        pair = ("Does it work?", f"It works at {time.perf_counter()}.")
        try:
            return not (await self.score(self.scorer.tasks[0], [pair])).errors
        except Overloaded:
            return False  # with no place for a pair, nothing shows that it scores again

    def _request(self, task: Task, pairs: Sequence[Pair]) -> _Request:
        """The request with what the cache knows filled in."""
        done = asyncio.get_running_loop().create_future()
        request = _Request(task, [None] * len(pairs), done, time.perf_counter())
        for index, pair in enumerate(pairs):
            key = self._cache.key(task, pair)
            request.results[index] = score = self._cache.get(key)
            if score is None:
                request.missing.setdefault(key, []).append(index)
        if not request.missing:
            done.set_result(None)
        return request

    async def _encode(self, request: _Request, pairs: Sequence[Pair]) -> None:
        """Tokenise what no other request has under way, and wait for the rest with them."""
        loop, encode = asyncio.get_running_loop(), partial(self.scorer.encode, request.task)
        fresh = [key for key in request.missing if not self._joined(key, request)]
        for start in range(0, len(fresh), ENCODED_AT_ONCE):
            keys = fresh[start : start + ENCODED_AT_ONCE]
            part = [pairs[request.missing[key][0]] for key in keys]
            if self.ended:
                raise self.ended
            rows = await loop.run_in_executor(self._encoding, bisected, encode, part, "tokenizer")
            for key, row in zip(keys, rows, strict=True):
                if isinstance(row, str):
                    request.settle(key, row)
                elif not self._joined(key, request):  # it may have come in meanwhile
                    self._under_way[key] = _Entry(key, row, [request])
                    request.tokens += len(row.ids)
        if self.ended:
            raise self.ended

    def _joined(self, key: Hashable, request: _Request) -> bool:
        """Whether the pair is under way; the request then gets its score too."""
        entry = self._under_way.get(key)
        if entry is not None:
            entry.requests.append(request)
        return entry is not None

    def _waiting(self, request: _Request) -> list[_Entry]:
        """Its pairs that no batch has taken yet."""
        entries = map(self._under_way.get, request.missing)
        return [entry for entry in entries if entry and not entry.taken]

    def _leave(self, request: _Request) -> None:
        """Answered or not, nobody waits for it any more; what nobody else wants is given up."""
        request.done.cancel()
        if request in self._requests:
            self._requests.remove(request)
        for entry in self._waiting(request):
            if all(other.done.done() for other in entry.requests):
                del self._under_way[entry.key]

    async def run(self) -> None:
        """Work the queue until cancelled; what arrives meanwhile is seen after every batch."""
        reason: Exception = Overloaded(retry_after_s=1)
        loop = asyncio.get_running_loop()
        try:
            while True:
                if batch := self._next_batch():
                    work = partial(self._forward, *batch)
                    self._deliver(*await loop.run_in_executor(self._model, work))
                else:
                    self._arrived.clear()
                    await self._arrived.wait()
        except Exception as error:
            reason = error
            raise
        finally:
            self.ended = reason
            for request in self._requests:  # nobody will compute these any more
                if not request.done.done():
                    request.done.set_exception(reason)
            self._encoding.shutdown(wait=False)
            self._model.shutdown(wait=False)

    def _next_batch(self) -> tuple[Task, list[_Entry]] | None:
        """A task and entries of it, as wide as the leading request's longest row.

        The request with the fewest tokens left and the oldest lead in turn, so that none starves.
        Rows nearly as long fill the batch up, the leader's own first.
        """
        alive = (request for request in self._requests if not request.done.done())
        waiting = {request: rows for request in alive if (rows := self._waiting(request))}
        if not waiting:
            return None
        self._oldest_leads = not self._oldest_leads
        leader = next(iter(waiting))
        if not self._oldest_leads:
            leader = min(waiting, key=lambda request: sum(e.length for e in waiting[request]))
        width = max(entry.length for entry in waiting[leader])
        min_length = min(ALIKE * width, width - ALIKE_TOKENS)
        own = set(waiting[leader])
        mates = (e for other, r in waiting.items() if other.task == leader.task for e in r)
        alike = [e for e in dict.fromkeys(mates) if min_length <= e.length <= width]
        alike.sort(key=lambda entry: (entry not in own, -entry.length))
        batch = alike[: max(1, self._batch_tokens // width)]
        for entry in batch:
            entry.taken = True
        return leader.task, batch

    def _forward(
        self, task: Task, batch: Sequence[_Entry]
    ) -> tuple[dict[_Entry, RowScore | str], float, float]:
        """Each entry's result, when the batch started, and the seconds it took."""
        started = time.perf_counter()
        forward = partial(self.scorer.forward, task)
        results = bisected(forward, [entry.row for entry in batch], "model")
        took_s = time.perf_counter() - started
        return dict(zip(batch, results, strict=True)), started, took_s

    def _deliver(
        self, results: dict[_Entry, RowScore | str], started: float, took_s: float
    ) -> None:
        self._metrics.batch([entry.length for entry in results], took_s)
        has_scores = any(isinstance(result, RowScore) for result in results.values())
        self._barren = 0 if has_scores else self._barren + 1
        self._permits.computed(len(results), took_s)
        for request in {request for entry in results for request in entry.requests}:
            waited_ms = (started - request.arrived_at) * 1000
            request.queue_ms = max(request.queue_ms, waited_ms)
            request.inference_ms += took_s * 1000
        for entry, result in results.items():
            self._under_way.pop(entry.key, None)
            self._cache.keep(entry.key, result)
            for request in entry.requests:
                request.settle(entry.key, result)


def _response(request: _Request, model: str) -> ScoreResponse:
    scores = [result if isinstance(result, RowScore) else None for result in request.results]
    return ScoreResponse(
        scores=[row.score if row else None for row in scores],
        labels=[row.label if row else None for row in scores],
        probabilities=[row.probabilities if row else None for row in scores],
        spans=[row.span if row else None for row in scores] if request.task == "answer" else [],
        similarities=[row.similarity if row else None for row in scores],
        model=model,
        tokens=request.tokens,
        queue_ms=round(request.queue_ms, 3),
        inference_ms=round(request.inference_ms, 3),
        errors=_errors(request),
    )


def _errors(request: _Request) -> list[RowError]:
    return [
        RowError(index=index, reason=reason)
        for index, reason in enumerate(request.results)
        if isinstance(reason, str)
    ]


def bisected(
    call: Callable[[Sequence[Item]], Sequence[Result]],
    items: Sequence[Item],
    caller: str,
    *,
    again: bool = False,
) -> list[Result | str]:
    """What `call` makes of the items; where it raises, bisect to isolate the items at fault.

    Those get a reason, which names the caller; the log gets the first traceback only.
    """
    try:
        return [*call(items)]
    except Exception as error:
        if not again:
            log.exception("The %s failed on %d pairs.", caller, len(items))
        if len(items) == 1:
            return [f"The {caller} failed on this pair ({type(error).__name__})."]
    middle = len(items) // 2
    halves = (items[:middle], items[middle:])
    return [result for half in halves for result in bisected(call, half, caller, again=True)]
