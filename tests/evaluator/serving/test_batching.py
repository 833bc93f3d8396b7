"""How waiting requests share the model, what a failing batch leaves, and what is cached."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.errors import Overloaded
from evaluator.inference.scorer import Scorer, in_batches, load_scorer
from evaluator.schema import TASKS, Row, RowScore, ScoreResponse, Task
from evaluator.serving.batching import MAX_RETRY_S, Batcher, Limits, Permits, ScoreCache, bisected
from evaluator.serving.metrics import WorkerMetrics
from evaluator.settings import EvaluatorSettings

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
    scorer: Scorer, limit: int = LIMIT, *, cached_pairs: int = 0, max_queued_pairs: int = 5000
) -> AsyncIterator[Batcher]:
    limits = Limits(max_queued_pairs=max_queued_pairs, cached_pairs=cached_pairs)
    batcher = Batcher(scorer, limit, limits, WorkerMetrics())
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
        large = asyncio.create_task(batcher.score("relevance", pairs(*[50] * 10)))
        await until_busy(scorer)
        small = [asyncio.create_task(batcher.score("relevance", pairs(10))) for _ in range(60)]
        smaller = [asyncio.create_task(batcher.score("support", pairs(10))) for _ in range(60)]
        await asyncio.sleep(0.1)
        assert await batches_until(large, scorer) <= 11, "every second batch is the oldest's"
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
    assert padded < 1.25 * sum(map(sum, lengths))


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
    batcher = Batcher(scorer, LIMIT, Limits(), WorkerMetrics())
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


async def test_rows_much_shorter_are_not_padded_up() -> None:
    scorer = Recorder()
    scorer.let_on()
    async with running(scorer, limit=960) as batcher:
        await batcher.score("relevance", pairs(40, 39, 38, 12, 11, 10, 10))
    assert [batch for _, batch in scorer.batches] == [[40, 39, 38], [12, 11, 10, 10]]


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


@pytest.mark.parametrize("bad", [{0}, {7}, {3, 4, 11}, set(range(12)), set()])
def test_only_the_items_at_fault_get_a_reason(bad: set[int]) -> None:
    def doubled(items: Sequence[int]) -> list[int]:
        if bad & set(items):
            raise ArithmeticError("secret")
        return [2 * item for item in items]

    assert bisected(doubled, range(12), "abacus") == [
        "The abacus failed on this pair (ArithmeticError)." if item in bad else 2 * item
        for item in range(12)
    ]


def test_one_traceback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    def failing(items: Sequence[int]) -> list[int]:
        nonlocal calls
        calls += 1
        raise ArithmeticError(f"call {calls}")

    with caplog.at_level(logging.ERROR):
        bisected(failing, range(8), "abacus")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "call 1"
    assert calls == 15


SCORE = RowScore(0.5, "[Relevant]", {})


def key(number: int) -> object:
    return ScoreCache(1).key("relevance", ("q", str(number)))


def test_the_least_recently_used_score_leaves_first_and_failures_are_not_kept() -> None:
    cache = ScoreCache(3)
    for number in range(3):
        cache.keep(key(number), SCORE)
    cache.keep(key(9), "The model failed on this pair (RuntimeError).")
    assert cache.get(key(0))
    cache.keep(key(3), SCORE)
    assert [cache.get(key(n)) is not None for n in (0, 1, 2, 3, 9)] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_pairs_are_told_apart_exactly() -> None:
    cache = ScoreCache(10)
    keys = {
        cache.key("relevance", ("ab", "c")),
        cache.key("relevance", ("a", "bc")),
        cache.key("utility", ("ab", "c")),
        cache.key("relevance", ("ab", "c ")),
        cache.key("relevance", ("ab", "C")),
        cache.key("relevance", ("", "abc")),
        cache.key("relevance", ("ab\ud800", "c")),
    }
    assert len(keys) == 7


async def test_a_repeated_request_costs_nothing() -> None:
    scorer = Recorder()
    scorer.let_on()
    async with running(scorer, cached_pairs=50) as batcher:
        first = await batcher.score("relevance", pairs(30, 29, 28))
        again = await batcher.score("relevance", pairs(28, 30, 29))
        other = await batcher.score("support", pairs(28))
    assert (first.scores, first.tokens) == ([30, 29, 28], 87)
    assert (again.scores, again.tokens, again.inference_ms) == ([28, 30, 29], 0, 0)
    assert other.tokens == 28, "another task is another judgement"
    assert len(scorer.batches) == 2
    assert scorer.encoded == 4


async def test_what_is_known_needs_no_room_in_a_full_queue() -> None:
    scorer = Recorder()
    scorer.let_on(1)
    async with running(scorer, cached_pairs=50, max_queued_pairs=2) as batcher:
        await batcher.score("relevance", pairs(5))
        waiting = asyncio.create_task(batcher.score("relevance", pairs(6, 7)))
        await until_busy(scorer)
        assert batcher.queued_pairs == 2
        assert (await batcher.score("relevance", pairs(5))).scores == [5]
        scorer.let_on()
        await waiting


async def test_the_same_pair_within_a_request_is_computed_once() -> None:
    scorer = Recorder()
    scorer.let_on()
    async with running(scorer, cached_pairs=50) as batcher:
        answer = await batcher.score("relevance", [*pairs(5, 6, 5), ("q", ""), *pairs(5)])
    assert answer.scores == [5, 6, 5, None, 5]
    assert answer.tokens == 11
    assert scorer.batches == [("relevance", [6, 5])]


async def joined(scorer: Recorder, *, first_leaves: bool, second_leaves: bool) -> list[object]:
    """Two requests for one pair that is being computed, and one for it beside another."""
    async with running(scorer, cached_pairs=50) as batcher:
        first = asyncio.create_task(batcher.score("relevance", pairs(9)))
        await until_busy(scorer)
        second = asyncio.create_task(batcher.score("relevance", pairs(9)))
        third = asyncio.create_task(batcher.score("relevance", pairs(9, 4)))
        await asyncio.sleep(0.05)
        if first_leaves:
            first.cancel()
        if second_leaves:
            second.cancel()
        scorer.let_on()
        return list(await asyncio.gather(first, second, third, return_exceptions=True))


async def test_the_same_pair_asked_at_once_is_computed_once() -> None:
    scorer = Recorder()
    answers = await joined(scorer, first_leaves=False, second_leaves=False)
    assert [answer.scores for answer in answers if isinstance(answer, ScoreResponse)] == [
        [9], [9], [9, 4],
    ]  # fmt: skip
    assert [answer.tokens for answer in answers if isinstance(answer, ScoreResponse)] == [9, 0, 4]
    assert [batch for _, batch in scorer.batches] == [[9], [4]]


async def test_who_leaves_takes_no_score_from_those_who_stay() -> None:
    scorer = Recorder()
    first, second, third = await joined(scorer, first_leaves=True, second_leaves=True)
    assert isinstance(first, asyncio.CancelledError)
    assert isinstance(second, asyncio.CancelledError)
    assert isinstance(third, ScoreResponse)
    assert third.scores == [9, 4]
    assert [batch for _, batch in scorer.batches] == [[9], [4]]


async def test_a_waiting_pair_is_inherited_and_one_given_up_is_asked_anew() -> None:
    scorer = Recorder()
    async with running(scorer, cached_pairs=50) as batcher:
        running_now = asyncio.create_task(batcher.score("relevance", pairs(100)))
        await until_busy(scorer)
        leaving = asyncio.create_task(batcher.score("relevance", pairs(40, 50)))
        await asyncio.sleep(0.05)
        heir = asyncio.create_task(batcher.score("relevance", pairs(50)))
        await asyncio.sleep(0.05)
        leaving.cancel()
        await asyncio.sleep(0.05)
        anew = asyncio.create_task(batcher.score("relevance", pairs(40)))
        await asyncio.sleep(0.05)
        scorer.let_on()
        answers = await asyncio.gather(running_now, heir, anew)
    assert [answer.scores for answer in answers] == [[100], [50], [40]]
    assert sorted(length for _, batch in scorer.batches for length in batch) == [40, 50, 100]


async def test_with_no_room_nothing_is_kept_or_shared() -> None:
    scorer = Recorder()
    scorer.let_on()
    async with running(scorer) as batcher:
        await batcher.score("relevance", pairs(5, 5))
        assert (await batcher.score("relevance", pairs(5))).tokens == 5
    assert sum(len(batch) for _, batch in scorer.batches) == 3


TINY_TEXTS = [
    "river", "how long is the river?", "河流", "河流很长，很长", "</s> [SEP] <pad>", "x " * 30,
    "7.", "the river is long. " * 5,
]  # fmt: skip
TINY_PAIRS = [(TINY_TEXTS[n % 8], TINY_TEXTS[(3 * n + n // 8) % 8]) for n in range(20)]
requests = st.lists(
    st.tuples(
        st.sampled_from(TASKS[:2]), st.lists(st.sampled_from(TINY_PAIRS), min_size=1, max_size=7)
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module", params=["torch", "onnx"])
def tiny(request: pytest.FixtureRequest, exported: Path) -> Scorer:
    chosen = {"weights": exported, "backend": request.param, "threads": 1}
    return load_scorer(EvaluatorSettings.model_validate(chosen))


@pytest.fixture(scope="module")
def alone(tiny: Scorer) -> dict[tuple[Task, tuple[str, str]], RowScore]:
    """Each pair's judgement in a batch of its own, nearly all of them different."""
    judged = {
        (task, pair): in_batches(tiny, task, [pair])[0] for task in TASKS[:2] for pair in TINY_PAIRS
    }
    assert len({row.score for row in judged.values() if isinstance(row, RowScore)}) > 30
    return {asked: row for asked, row in judged.items() if isinstance(row, RowScore)}


async def at_once(
    scorer: Scorer, requests: list[tuple[Task, Pairs]], batch_tokens: int, cached_pairs: int
) -> list[ScoreResponse]:
    async with running(scorer, batch_tokens, cached_pairs=cached_pairs) as batcher:
        return await asyncio.gather(*(batcher.score(task, pairs) for task, pairs in requests))


@settings(max_examples=20)
@given(asked=requests, bound=st.integers(1, 600), kept=st.sampled_from([0, 3, 1000]))
def test_scores_are_those_of_the_pair_alone(
    tiny: Scorer,
    alone: dict[tuple[Task, tuple[str, str]], RowScore],
    asked: list[tuple[Task, Pairs]],
    bound: int,
    kept: int,
) -> None:
    answers = asyncio.run(at_once(tiny, asked, bound, kept))
    for (task, pairs), answer in zip(asked, answers, strict=True):
        assert answer.errors == []
        expected = [alone[task, pair] for pair in pairs]
        assert answer.scores == pytest.approx([row.score for row in expected], abs=1e-5)
        for label, row in zip(answer.labels, expected, strict=True):
            ties = row.probabilities[str(label)] > max(row.probabilities.values()) - 1e-5
            assert label == row.label or ties


def refused(permits: Permits, count: int) -> Overloaded:
    with pytest.raises(Overloaded) as raised, permits.taken(count):
        pass
    return raised.value


def test_a_burst_is_let_in_up_to_the_last_permit() -> None:
    permits = Permits(1000)
    with permits.taken(960), permits.taken(40):
        assert permits.used == 1000
        refused(permits, 1)
        with permits.taken(0):  # all of it is known already
            pass
    assert permits.used == 0


def test_what_is_refused_takes_nothing_and_what_fails_gives_back() -> None:
    permits = Permits(10)
    refused(permits, 11)
    with pytest.raises(ZeroDivisionError), permits.taken(10):
        raise ZeroDivisionError
    assert permits.used == 0


def test_retry_after_is_when_those_inside_are_done() -> None:
    permits = Permits(1000)
    with permits.taken(950):
        assert refused(permits, 100).retry_after_s == 1  # nothing computed yet
        permits.computed(100, 1.0)
        assert refused(permits, 100).retry_after_s == 10
        for _ in range(200):
            permits.computed(10, 1.0)
        assert refused(permits, 100).retry_after_s == MAX_RETRY_S
