import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import pytest

from app.resilience import circuit_breaker as module
from app.resilience.circuit_breaker import (
    MAX_FAILURES,
    MAX_HOSTS,
    Attempt,
    CircuitBreaker,
    HostBreakers,
)

OPEN_S = 0.1
Attempting = Callable[[type[Exception]], AbstractContextManager[Attempt]]
"""A breaker's way to make an attempt, with what it raises where it makes none."""


class Down(Exception):
    """The dependency is down."""


class Refused(Exception):
    """It does not take this request."""


class NotAsked(Exception):
    """The breaker is open."""


@pytest.fixture
def breaker() -> CircuitBreaker:
    return CircuitBreaker("model", open_s=OPEN_S)


def call(attempting: Attempting, raises: BaseException | None = None) -> None:
    """One call, and what comes of it."""
    with attempting(NotAsked) as attempt:
        attempt.has_failed = isinstance(raises, Down)
        if raises is not None:
            raise raises


def fails(attempting: Attempting, *errors: BaseException) -> None:
    for error in errors:
        with pytest.raises(type(error)):
            call(attempting, error)


def test_three_failures_in_a_row_open_it(
    breaker: CircuitBreaker, caplog: pytest.LogCaptureFixture
) -> None:
    fails(breaker.attempt, Down(), Down())
    call(breaker.attempt)
    fails(breaker.attempt, Down(), Down())
    assert breaker.openness() == 0
    fails(breaker.attempt, Down())

    assert breaker.openness() == 1
    with pytest.raises(NotAsked, match=r"failed 3 times in a row and is asked again in 1 s"):
        call(breaker.attempt)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("other", [Refused(), KeyboardInterrupt()])
def test_what_is_no_fault_of_the_dependency_does_not_count(
    breaker: CircuitBreaker, other: BaseException
) -> None:
    fails(breaker.attempt, other, other, other, other)
    assert breaker.openness() == 0


def test_a_probe_that_succeeds_closes_it(
    breaker: CircuitBreaker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fails(breaker.attempt, Down(), Down(), Down())
    time.sleep(OPEN_S)

    assert breaker.openness() == 0.5
    with breaker.attempt(NotAsked), pytest.raises(NotAsked, match="is being probed"):
        call(breaker.attempt)
    assert breaker.openness() == 0
    assert caplog.records[-1].levelno == logging.INFO
    fails(breaker.attempt, Down(), Down())
    assert breaker.openness() == 0, "the count begins anew"


def test_a_probe_that_fails_opens_it_again(breaker: CircuitBreaker) -> None:
    fails(breaker.attempt, Down(), Down(), Down())
    time.sleep(OPEN_S)
    fails(breaker.attempt, Down(), NotAsked(""))
    assert breaker.openness() == 1


def test_a_probe_without_a_verdict_leaves_its_place_to_the_next(breaker: CircuitBreaker) -> None:
    fails(breaker.attempt, Down(), Down(), Down())
    time.sleep(OPEN_S)
    fails(breaker.attempt, Refused())
    assert breaker.openness() == 0.5
    call(breaker.attempt)
    assert breaker.openness() == 0


@pytest.mark.parametrize(("fault", "openness"), [(None, 0), (Down(), 1)])
async def test_nobody_waits_for_a_probe_that_goes_on(
    monkeypatch: pytest.MonkeyPatch, fault: Down | None, openness: float
) -> None:
    monkeypatch.setattr(module, "PROBE_S", 0.02)
    may_end = asyncio.Event()

    async def slow() -> None:
        await may_end.wait()
        if fault is not None:
            raise fault

    breaker = CircuitBreaker("model", open_s=60)
    fails(breaker.attempt, Down(), Down(), Down())
    breaker._open_until = time.monotonic()
    with pytest.raises(NotAsked, match="is being probed"), breaker.attempt(NotAsked) as attempt:
        await attempt.through(slow())
    with pytest.raises(NotAsked, match="is being probed"):
        call(breaker.attempt)
    assert breaker.openness() == 0.5
    may_end.set()
    await asyncio.sleep(0.01)
    assert breaker.openness() == openness


async def test_a_probe_that_hangs_ends_with_its_time(
    breaker: CircuitBreaker, caplog: pytest.LogCaptureFixture
) -> None:
    """Not with that of an impatient run."""
    fails(breaker.attempt, Down(), Down(), Down())
    await asyncio.sleep(OPEN_S)

    async def impatient() -> None:
        with breaker.attempt(NotAsked) as attempt:
            attempt.has_failed = True
            await attempt.through(asyncio.sleep(60))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(impatient(), 0.01)
    assert breaker._left is not None
    await asyncio.wait({breaker._left})
    assert len(caplog.records) == 2, "opened once more"


def test_calls_begun_before_it_opened_change_nothing(breaker: CircuitBreaker) -> None:
    with breaker.attempt(NotAsked):
        fails(breaker.attempt, Down(), Down(), Down())
    assert breaker.openness() == 1


def test_a_host_that_is_down_leaves_the_others_alone() -> None:
    hosts = HostBreakers("pages", open_s=OPEN_S)
    at_a, at_b = partial(hosts.attempt, "a"), partial(hosts.attempt, "b")
    call(at_b)
    fails(at_a, *[Down()] * MAX_FAILURES)

    assert hosts.openness() == 1
    with pytest.raises(NotAsked, match="failed 3 times in a row"):
        call(at_a)
    call(at_b)
    time.sleep(OPEN_S)
    assert hosts.openness() == 0.5
    call(at_a)
    assert hosts.openness() == 0


def test_calls_of_a_host_side_by_side_count_together() -> None:
    hosts = HostBreakers("pages")

    def fail_together() -> None:
        with ExitStack() as side_by_side:
            for _ in range(MAX_FAILURES):
                side_by_side.enter_context(hosts.attempt("a", NotAsked)).has_failed = True
            raise Down

    with pytest.raises(Down):
        fail_together()
    assert hosts.openness() == 1


def test_a_host_that_answers_begins_anew() -> None:
    hosts = HostBreakers("pages")
    at_a = partial(hosts.attempt, "a")
    for _ in range(2):
        fails(at_a, *[Down()] * (MAX_FAILURES - 1), Refused())
        call(at_a)
    assert hosts.openness() == 0
    assert not hosts._hosts


def test_hosts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = HostBreakers("pages")
    first, second = partial(hosts.attempt, "first"), partial(hosts.attempt, "second")
    fails(first, *[Down()] * MAX_FAILURES)
    for n in range(2 * MAX_HOSTS):
        fails(partial(hosts.attempt, f"host{n}"), Down())
    call(first)
    assert len(hosts._hosts) <= MAX_HOSTS + 1

    fails(second, *[Down()] * MAX_FAILURES)
    monkeypatch.setattr(module, "REMEMBERED_S", 0.0)
    assert hosts.openness() == 0
    call(second)
