import asyncio

import pytest

from app.resilience.deadline import CallLimit, call_limit, is_outage, run_ends_at


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_without_a_run_the_own_limit_counts_alone() -> None:
    assert call_limit().at is None
    assert call_limit(5.0).at == pytest.approx(now() + 5, abs=0.1)
    assert str(call_limit(5.0)) == "5 s"


@pytest.mark.parametrize(
    ("run_s", "left_s"), [(0.1, 0.05), (0.5, 0.4), (2, 1.8), (10, 9), (60, 58), (600, 598)]
)
async def test_the_fallback_keeps_a_tenth_of_the_run(run_s: float, left_s: float) -> None:
    with run_ends_at(now() + run_s):
        assert call_limit().seconds == pytest.approx(left_s, abs=0.02)
        assert call_limit(1000.0).seconds == pytest.approx(left_s, abs=0.02)
        half = call_limit(reserve=0.5).seconds
        assert half == pytest.approx((run_s + left_s) / 2, abs=0.02)
    assert call_limit().at is None


async def test_the_nearer_limit_counts_in_tasks_as_well() -> None:
    async def limit() -> CallLimit:
        return call_limit(5.0)

    with run_ends_at(now() + 2):
        near = asyncio.create_task(limit())
        assert (await near).by_run
    with run_ends_at(now() + 20):
        assert not (await asyncio.create_task(limit())).by_run


async def test_a_run_without_time_leaves_none() -> None:
    with run_ends_at(now() + 0.05):
        await asyncio.sleep(0.04)
        assert call_limit().is_over
        assert call_limit(5.0).is_over


async def test_a_short_run_says_nothing_of_the_dependency() -> None:
    with run_ends_at(now() + 0.5):
        limit = call_limit(5.0)
    assert not is_outage(limit, 0.4)
    assert is_outage(limit, 1.5)
    assert is_outage(call_limit(0.3), 0.3), "its own time was over"
