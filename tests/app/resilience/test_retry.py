import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from app.resilience import retry
from app.resilience.deadline import CallLimit, call_limit
from app.resilience.retry import (
    CALLS_PER_RETRY,
    MAX_RETRIES,
    MAX_SAVED,
    Retries,
    RetryBudget,
    seconds_of,
)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.0)


async def retries_of(budget: RetryBudget, limit: CallLimit | None = None) -> int:
    """How often a call that always fails is made again."""
    retries, made = Retries(budget, limit or call_limit(60.0)), 0
    while await retries.wait():
        made += 1
    return made


async def test_a_call_is_made_again_a_few_times() -> None:
    assert await retries_of(RetryBudget()) == MAX_RETRIES
    assert await retries_of(RetryBudget(), call_limit()) == MAX_RETRIES


async def test_in_the_long_run_a_fifth_of_the_calls_is_made_again() -> None:
    budget, calls = RetryBudget(), 500
    made = sum([await retries_of(budget) for _ in range(calls)])
    assert made <= calls / CALLS_PER_RETRY + MAX_SAVED
    assert made >= calls / CALLS_PER_RETRY


async def test_calls_that_succeed_earn_a_burst_of_retries() -> None:
    budget = RetryBudget()
    while await retries_of(budget):
        pass
    for _ in range(1000):
        Retries(budget, call_limit(60.0))
    assert sum([await retries_of(budget) for _ in range(10)]) <= MAX_SAVED + 10 / CALLS_PER_RETRY


async def test_what_does_not_fit_the_time_left_is_not_waited_for() -> None:
    budget = RetryBudget()
    began = asyncio.get_running_loop().time()
    assert not await Retries(budget, call_limit(10.0)).wait(6.0)
    assert asyncio.get_running_loop().time() - began < 2
    assert await Retries(budget, call_limit(10.0)).wait(0.01)


async def test_no_retry_is_spent_where_none_is_made() -> None:
    budget = RetryBudget()
    for _ in range(100):
        assert not await Retries(budget, call_limit(1.0)).wait(5.0)
    assert await retries_of(budget) == MAX_RETRIES


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *[("3", 3.0), (" 120 ", 120.0), ("0", 0.0), ("", None), (None, None), ("soon", None)],
        *[("-1", None), ("nan", None), ("inf", None), ("٣", None), ("1.5", None)],
    ],
)
def test_retry_after_in_seconds(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header) == seconds


def test_retry_after_as_a_date() -> None:
    now = datetime.now(UTC)
    later = seconds_of(format_datetime(now + timedelta(seconds=60), usegmt=True))
    assert later == pytest.approx(60, abs=10)
    assert seconds_of(format_datetime(now - timedelta(days=1), usegmt=True)) == 0
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 -0000") == 0
