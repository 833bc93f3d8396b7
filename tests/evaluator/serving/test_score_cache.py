"""Pairs asked again, and pairs asked twice at once."""

import asyncio

from evaluator.inference.scorer import Row, RowScore
from evaluator.schema import ScoreResponse
from evaluator.serving.batch_scheduler import Entry
from evaluator.serving.score_cache import ScoreCache
from tests.evaluator.serving.test_batching import Recorder, pairs, running, until_busy

SCORE = RowScore(0.5, "[Relevant]", {})


def kept(cache: ScoreCache, number: int) -> bool:
    return cache.get(cache.key("relevance", ("q", str(number)))) is not None


def keep(cache: ScoreCache, number: int, result: RowScore | str = SCORE) -> None:
    key = cache.key("relevance", ("q", str(number)))
    cache.end(Entry(key, "relevance", Row((1,))), result)


def test_the_least_recently_used_leaves_first() -> None:
    cache = ScoreCache(3)
    for number in range(3):
        keep(cache, number)
    assert kept(cache, 0)
    keep(cache, 3)
    assert [kept(cache, number) for number in range(4)] == [True, False, True, True]


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


def test_a_failure_is_not_kept() -> None:
    cache = ScoreCache(10)
    keep(cache, 0, "The model failed on this pair (RuntimeError).")
    assert not kept(cache, 0)


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
