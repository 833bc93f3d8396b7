"""Admission: places are for what is busy here, the queue goes by deadline, turns are fair."""

import asyncio
import contextlib
import time
from collections import Counter
from contextvars import copy_context

import pytest

from app.errors import TooManyRuns
from app.resilience.deadline import elsewhere
from app.runs.admission import Admission, Place


async def worked(
    admission: Admission, here_s: float, elsewhere_s: float = 0.0, within_s: float = 60.0
) -> str:
    """What becomes of a run that is busy here and then waits for another machine."""
    try:
        place = await admission.enter("", within_s)
    except TooManyRuns:
        return "refused"
    admission.work(place)
    await asyncio.sleep(here_s)
    with elsewhere():
        await asyncio.sleep(elsewhere_s)
    admission.leave(place)
    return "answered"


async def many(admission: Admission, runs: int, *work: float) -> Counter[str]:
    tasks = [
        asyncio.create_task(worked(admission, *work), context=copy_context()) for _ in range(runs)
    ]
    return Counter(await asyncio.gather(*tasks))


async def test_runs_that_wait_for_a_model_hold_no_place_after_short_ones() -> None:
    admission = Admission(64, wait_s=0.5, places=2)
    for _ in range(10):
        assert await worked(admission, 0.005) == "answered"
    for _ in range(3):
        began_s = time.monotonic()
        assert await many(admission, 6, 0.01, 0.3) == {"answered": 6}
        assert time.monotonic() - began_s < 0.55, "they waited side by side"


async def test_a_burst_that_can_be_served_in_time_is() -> None:
    admission = Admission(64, wait_s=30, places=4)
    assert await many(admission, 64, 0.02, 0.0, 30.0) == {"answered": 64}


async def test_under_lasting_overload_places_are_never_idle_and_refusals_come_at_once() -> None:
    admission = Admission(64, wait_s=0.3, places=2)
    began_s, tasks, told = time.monotonic(), [], Counter[str]()
    while time.monotonic() - began_s < 1.5:  # five times what two places can do
        tasks.append(asyncio.create_task(worked(admission, 0.04, 0.0, 0.5), context=copy_context()))
        await asyncio.sleep(0.004)
    took_s = time.monotonic() - began_s
    told.update(task.result() for task in tasks if task.done())
    assert told["answered"] >= 0.8 * 2 * took_s / 0.04
    assert told["refused"] >= 0.9 * (len(tasks) - told["answered"] - admission.waiting - 2)
    await asyncio.gather(*tasks)


async def test_turns_come_by_deadline() -> None:
    admission = Admission(8, places=1)
    place = await admission.enter("", 60)
    order: list[float] = []

    async def wait(within_s: float) -> None:
        mine = await admission.enter("", within_s)
        order.append(within_s)
        admission.leave(mine)

    tasks = [asyncio.create_task(wait(within_s)) for within_s in (50, 20, 40)]
    await asyncio.sleep(0)
    admission.leave(place)
    await asyncio.gather(*tasks)
    assert order == [20, 40, 50]


async def test_whoever_waits_in_vain_is_told_when_a_place_is_expected() -> None:
    admission = Admission(2, wait_s=0.2, places=1)
    place = await admission.enter("", 60)
    with pytest.raises(TooManyRuns) as refused:
        await admission.enter("", 60)
    assert int(refused.value.headers["Retry-After"]) >= 1
    admission.leave(place)
    assert (admission.at_work, admission.waiting) == (0, 0)


async def test_who_could_not_be_answered_in_time_is_refused_at_once() -> None:
    admission = Admission(4, places=1)
    place = await admission.enter("", 60)
    first = asyncio.create_task(admission.enter("", 60))
    await asyncio.sleep(0.2)  # a turn takes so long at least
    began_s = time.monotonic()
    with pytest.raises(TooManyRuns):
        await admission.enter("", 0.3)
    assert time.monotonic() - began_s < 0.1
    admission.leave(place)
    admission.leave(await first)


async def test_whoever_waits_is_refused_when_the_service_ends() -> None:
    admission = Admission(4, places=1)
    place = await admission.enter("", 60)
    waiting = asyncio.create_task(admission.enter("", 60))
    await asyncio.sleep(0)
    admission.turn_away()
    with pytest.raises(TooManyRuns):
        await waiting
    admission.leave(place)
    assert (admission.at_work, admission.waiting) == (0, 0)


async def test_who_leaves_the_queue_takes_no_place() -> None:
    admission = Admission(1)
    place = await admission.enter("", 60)
    leaving = asyncio.create_task(admission.enter("", 60))
    await asyncio.sleep(0)
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    admission.leave(place)
    assert (admission.at_work, admission.waiting) == (0, 0)


async def test_an_owner_that_fills_its_share_leaves_a_place_to_others() -> None:
    admission = Admission(64, wait_s=0.05, places=8)
    taken: list[Place] = []
    with contextlib.suppress(TooManyRuns):
        while True:
            taken.append(await admission.enter("greedy", 60))
    assert len(taken) == 7
    assert (await admission.enter("other", 60)).owner == "other"


async def test_turns_go_to_whoever_holds_the_fewest() -> None:
    admission = Admission(2, places=2)
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
