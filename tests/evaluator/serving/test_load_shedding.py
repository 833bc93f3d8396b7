import pytest

from evaluator.errors import Overloaded
from evaluator.serving.batching import MAX_RETRY_S, Permits


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
