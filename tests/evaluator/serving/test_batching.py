"""How waiting requests share the model: who goes first, and what shares a batch."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from evaluator.errors import Overloaded
from evaluator.inference.scorer import Row, RowScore
from evaluator.schema import Task
from evaluator.serving.batching import Batcher, in_batches

Pairs = list[tuple[str, str]]
LIMIT = 100


class Recorder:
    """A scorer that counts characters as tokens and waits to be let on, batch by batch."""

    name, digest = "recorder", ""
    tasks: tuple[Task, ...] = ("relevance", "support")

    def __init__(self) -> None:
        self.batches: list[tuple[Task, list[int]]] = []
        self.busy = threading.Event()
        self.go = threading.Semaphore(0)
        self.threads: set[threading.Thread] = set()
        self.encoded = 0

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        self.threads.add(threading.current_thread())
        self.encoded += len(pairs)
        return [Row(tuple(map(ord, text))) if text else "empty" for _, text in pairs]

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        self.threads.add(threading.current_thread())
        self.batches.append((task, [len(row.ids) for row in rows]))
        self.busy.set()
        assert self.go.acquire(timeout=10)
        return [RowScore(float(len(row.ids)), "[Relevant]", {}) for row in rows]

    def let_on(self, batches: int = 10_000) -> None:
        self.go.release(batches)


@contextlib.asynccontextmanager
async def running(
    scorer: Recorder, limit: int = LIMIT, *, cached_pairs: int = 0, max_queued_pairs: int = 5000
) -> AsyncIterator[Batcher]:
    batcher = Batcher(
        scorer,
        batch_tokens=limit,
        max_queued_pairs=max_queued_pairs,
        cached_pairs=cached_pairs,
    )
    task = asyncio.create_task(batcher.run())
    try:
        yield batcher
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def pairs(*lengths: int) -> Pairs:
    return [("q", "x" * length) for length in lengths]


async def until_busy(scorer: Recorder) -> None:
    assert await asyncio.to_thread(scorer.busy.wait, 5)
    await asyncio.sleep(0.05)  # and whatever was asked meanwhile is tokenised


async def batches_until(asked: "asyncio.Task[object]", scorer: Recorder) -> int:
    """How many batches are let on before the request is answered."""
    for let_on in range(1, 200):
        scorer.let_on(1)
        await asyncio.wait([asked], timeout=0.05)
        if asked.done():
            return let_on
    raise AssertionError("never answered")


async def test_a_small_request_overtakes_large_ones() -> None:
    scorer = Recorder()
    async with running(scorer) as batcher:
        large = [
            asyncio.create_task(batcher.score("relevance", pairs(*[10] * 60))) for _ in "12345678"
        ]
        await until_busy(scorer)
        small = asyncio.create_task(batcher.score("relevance", pairs(*[9] * 10)))
        await asyncio.sleep(0.05)
        assert await batches_until(small, scorer) <= 3, "the running one, the oldest's, its own"
        scorer.let_on()
        await asyncio.gather(*large)


async def test_a_stream_of_small_requests_does_not_starve_a_large_one() -> None:
    scorer = Recorder()
    async with running(scorer) as batcher:
        large = asyncio.create_task(batcher.score("relevance", pairs(*[50] * 20)))
        await until_busy(scorer)
        small = [asyncio.create_task(batcher.score("relevance", pairs(10))) for _ in range(60)]
        smaller = [asyncio.create_task(batcher.score("support", pairs(10))) for _ in range(60)]
        await asyncio.sleep(0.1)
        assert await batches_until(large, scorer) <= 21, "every second batch is the oldest's"
        scorer.let_on()
        await asyncio.gather(*small, *smaller)


async def test_batches_keep_the_bound_one_task_and_the_order() -> None:
    scorer = Recorder()
    scorer.let_on()
    lengths = [[(7 * i * i + 13 * job) % 90 + 1 for i in range(50)] for job in range(6)]
    tasks: list[Task] = ["relevance", "support"]
    async with running(scorer) as batcher:
        answers = await asyncio.gather(
            *(batcher.score(tasks[job % 2], pairs(*asked)) for job, asked in enumerate(lengths))
        )
    for asked, answer in zip(lengths, answers, strict=True):
        assert answer.scores == asked
        assert answer.tokens == sum(asked)
    batches = [batch for _, batch in scorer.batches]
    assert all(len(batch) * max(batch) <= LIMIT or len(batch) == 1 for batch in batches)
    assert sum(map(len, batches)) == 300, "each row once"
    padded = sum(len(batch) * max(batch) for batch in batches)
    assert padded < 1.15 * sum(map(sum, lengths))


async def test_a_row_over_the_bound_goes_alone() -> None:
    scorer = Recorder()
    scorer.let_on()
    async with running(scorer) as batcher:
        answer = await batcher.score("relevance", [*pairs(250, 90, 95), ("q", "")])
    assert answer.scores == [250, 90, 95, None]
    assert scorer.batches[0] == ("relevance", [250])


async def test_a_client_that_left_frees_its_place() -> None:
    scorer = Recorder()
    async with running(scorer) as batcher:
        first = asyncio.create_task(batcher.score("relevance", pairs(100)))
        await until_busy(scorer)
        leaving = asyncio.create_task(batcher.score("relevance", pairs(*[99] * 40)))
        await asyncio.sleep(0.05)
        assert batcher.queued_pairs == 41
        leaving.cancel()
        scorer.let_on()
        await first
        await batcher.score("relevance", pairs(98))
        assert batcher.queued_pairs == 0
    assert [batch for _, batch in scorer.batches] == [[100], [98]]


async def test_a_fault_of_the_scheduling_itself_is_told_and_ends_the_worker() -> None:
    class Short(Recorder):
        def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
            return super().forward(task, rows)[1:]

    scorer = Short()
    scorer.let_on()
    batcher = Batcher(scorer, batch_tokens=LIMIT, max_queued_pairs=10)
    run = asyncio.create_task(batcher.run())
    for _ in range(2):
        with pytest.raises(ValueError, match="shorter"):
            await batcher.score("relevance", pairs(5, 6))
    with pytest.raises(ValueError, match="shorter"):
        await run


async def test_scoring_needs_no_thread_of_the_default_pool() -> None:
    scorer, stuck = Recorder(), threading.Event()
    scorer.let_on()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    hung = loop.run_in_executor(None, stuck.wait, 10)
    try:
        async with asyncio.timeout(3), running(scorer) as batcher:
            await batcher.score("relevance", pairs(5))
    finally:
        stuck.set()
        await hung
    assert {thread.name.rsplit("_", 1)[0] for thread in scorer.threads} == {
        "evaluator-encoding",
        "evaluator-model",
    }


async def test_after_the_end_there_is_no_waiting_and_no_thread() -> None:
    scorer = Recorder()
    scorer.let_on()
    async with running(scorer) as batcher:
        await batcher.score("relevance", pairs(5))
    with pytest.raises(Overloaded):
        await batcher.score("relevance", pairs(5))
    assert len(scorer.threads) == 2
    for thread in scorer.threads:
        thread.join(2)
        assert not thread.is_alive()


def test_without_a_worker_the_answers_are_the_same() -> None:
    scorer = Recorder()
    scorer.let_on()
    asked = [*pairs(30, 250, 5, 60), ("q", ""), *pairs(5)]
    found = in_batches(scorer, "relevance", asked, batch_tokens=LIMIT)
    assert [row if isinstance(row, str) else row.score for row in found] == [
        30, 250, 5, 60, "empty", 5,
    ]  # fmt: skip


async def test_a_request_is_split_where_padding_would_cost_more_than_another_batch() -> None:
    scorer = Recorder()
    scorer.let_on()
    async with running(scorer, limit=960) as batcher:  # another batch costs 20 tokens
        await batcher.score("relevance", pairs(40, 39, 38, 12, 11, 10, 10))
        await batcher.score("relevance", pairs(40, 39, 38, 35, 34))
    assert [batch for _, batch in scorer.batches] == [
        [40, 39, 38], [12, 11, 10, 10], [40, 39, 38, 35, 34],
    ]  # fmt: skip


async def test_a_request_that_is_split_keeps_its_turn() -> None:
    scorer = Recorder()
    async with running(scorer) as batcher:
        large = asyncio.create_task(batcher.score("relevance", pairs(*[50] * 20)))
        await until_busy(scorer)
        small = asyncio.create_task(batcher.score("relevance", pairs(20, 20, 10, 5)))
        await asyncio.sleep(0.05)
        assert await batches_until(small, scorer) <= 5, "the running one, the oldest's, its own"
        scorer.let_on()
        await large


async def test_other_requests_fill_a_batch_with_rows_as_long_alone() -> None:
    scorer = Recorder()
    async with running(scorer) as batcher:
        asked = [asyncio.create_task(batcher.score("relevance", pairs(100)))]
        await until_busy(scorer)
        for lengths in ([30], [29, 20], [28, 31]):
            asked.append(asyncio.create_task(batcher.score("relevance", pairs(*lengths))))
            await asyncio.sleep(0.05)
        scorer.let_on()
        await asyncio.gather(*asked)
    assert [batch for _, batch in scorer.batches][1] == [30, 29, 28]


async def test_when_the_queue_closes_the_last_to_come_are_refused() -> None:
    scorer = Recorder()
    async with running(scorer, max_queued_pairs=8) as batcher:
        asked = [asyncio.create_task(batcher.score("relevance", pairs(90, 90)))]
        await until_busy(scorer)
        for length in (81, 82, 83):
            asked.append(asyncio.create_task(batcher.score("relevance", pairs(length, length))))
            await asyncio.sleep(0.05)
        assert batcher.queued_pairs == 8
        with pytest.raises(Overloaded):
            await batcher.score("relevance", pairs(80))  # closes two places
        with pytest.raises(Overloaded):
            await asked[3]
        assert batcher.queued_pairs == batcher.queue_places == 6
        for _ in range(9):
            with pytest.raises(Overloaded):
                await batcher.score("relevance", pairs(80))
        assert batcher.queue_places == 0
        for later in asked[1:3]:
            with pytest.raises(Overloaded):
                await later
        scorer.let_on()
        assert (await asked[0]).scores == [90, 90]  # who has waited longest may wait
    assert [batch for _, batch in scorer.batches] == [[90], [90]]


class Barren(Recorder):
    """A scorer whose model fails on every pair."""

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        super().forward(task, rows)
        return ["it failed"] * len(rows)


@pytest.mark.parametrize("question", ["how long?", "多长？"])
async def test_a_full_worker_that_scores_nothing_is_known_not_to_work(question: str) -> None:
    scorer = Barren()
    async with running(scorer, max_queued_pairs=2) as batcher:
        scorer.let_on(3)
        for number in range(3):
            await batcher.score("relevance", [(question, f"{number}")])
        scorer.busy.clear()
        asked = asyncio.create_task(batcher.score("relevance", [(question, "a"), (question, "b")]))
        await until_busy(scorer)
        assert not await batcher.works()
        scorer.let_on()
        await asked
