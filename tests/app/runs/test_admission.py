"""Admission: the limit follows latency, the queue is short, turns are fair."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from app.errors import TooManyRuns
from app.runs.admission import Admission, Limit


def settled(latency_s: Callable[[int], float], most: int = 64, runs: int = 3000) -> int:
    """Where the limit ends if a run takes `latency_s(runs at work)` and all places are taken."""
    limit = Limit(most, start=8)
    for _ in range(2):
        limit.learn(latency_s(1), was_alone=True, was_full=False)
    for _ in range(runs):
        alone = limit.places == 1
        limit.learn(latency_s(limit.places), was_alone=alone, was_full=True)
    return limit.places


def test_on_two_cores_few_runs_work_at_once() -> None:
    assert 2 <= settled(lambda at_work: 0.5 * max(1.0, at_work / 2)) <= 4


def test_where_runs_wait_for_others_machines_many_do() -> None:
    assert settled(lambda _: 8.0) == 64


def test_a_far_machine_that_saturates_sets_the_limit() -> None:
    assert 18 <= settled(lambda at_work: 2.0 * max(1.0, at_work / 20)) <= 34


def test_what_is_not_asked_for_does_not_grow() -> None:
    limit = Limit(64, start=8)
    for _ in range(100):
        limit.learn(1.0, was_alone=True, was_full=False)
    assert limit.places == 8


async def test_whoever_finds_the_queue_full_is_told_at_once_when_to_come_back() -> None:
    admission = Admission(4, start=4)
    places = [await admission.enter("", 60) for _ in range(4)]
    waiting = [asyncio.create_task(admission.enter("", 60)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRuns) as refused:
        await admission.enter("", 60)
    assert int(refused.value.headers["Retry-After"]) >= 1

    for place in places:
        admission.leave(place, 0.5)
    admission.leave(await waiting[0])
    admission.leave(await waiting[1])
    assert (admission.at_work, admission.waiting) == (0, 0)


async def test_who_could_not_be_answered_in_time_is_refused_at_once() -> None:
    admission = Admission(1, start=1)
    place = await admission.enter("", 60)
    admission.limit.mean_s = 20.0
    with pytest.raises(TooManyRuns):
        await admission.enter("", 30)
    admission.leave(place)


async def test_who_leaves_the_queue_takes_no_place() -> None:
    admission = Admission(1, start=1)
    place = await admission.enter("", 60)
    leaving = asyncio.create_task(admission.enter("", 60))
    await asyncio.sleep(0)
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    admission.leave(place)
    assert (admission.at_work, admission.waiting) == (0, 0)


async def test_an_owner_that_fills_its_share_leaves_a_place_to_others() -> None:
    admission = Admission(8, start=8)
    taken = []
    with contextlib.suppress(TimeoutError, TooManyRuns):
        while True:
            async with asyncio.timeout(0.05):
                taken.append(await admission.enter("greedy", 60))
    assert len(taken) == 7
    assert (await admission.enter("other", 60)).owner == "other"


async def test_turns_go_to_whoever_holds_the_fewest() -> None:
    admission = Admission(2, start=2)
    first = [await admission.enter("a", 60), await admission.enter("b", 60)]
    order: list[str] = []

    async def wait(owner: str) -> None:
        place = await admission.enter(owner, 60)
        order.append(place.owner)

    tasks = [asyncio.create_task(wait(owner)) for owner in ("a", "c")]
    await asyncio.sleep(0)
    admission.leave(first[1])
    await asyncio.sleep(0)
    assert order == ["c"]
    admission.leave(first[0])
    await asyncio.wait(tasks, timeout=1)
    assert order == ["c", "a"]
