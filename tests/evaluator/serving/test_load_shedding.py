"""Who is let in: a burst is, lasting overload is not."""

import pytest

from evaluator.errors import Overloaded
from evaluator.serving.load_shedding import LONGEST_RETRY_S, Admission


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def worker(most_pairs: int, pairs_per_s: float = 100.0) -> tuple[Admission, Clock]:
    clock = Clock()
    admission = Admission(most_pairs, clock)
    admission.computed(100, 100 / pairs_per_s)
    return admission, clock


def refused(admission: Admission, pairs: int, others_wait: bool = True) -> Overloaded:
    with pytest.raises(Overloaded) as told:
        admission.enter(pairs, others_wait)
    return told.value


def overload(times: int, seconds: int) -> tuple[Admission, Clock, list[int]]:
    """So many times 100 pairs a second, in tens; pairs inside, second by second."""
    admission, clock = worker(1000)
    inside, depth = list[int](), 0
    for tick in range(10 * seconds):
        clock.now_s = tick / 10
        done = min(depth, 10)
        admission.leave(done)
        depth -= done
        for _ in range(times):
            try:
                admission.enter(10, others_wait=depth > 10)
            except Overloaded:
                continue
            depth += 10
        inside.append(depth)
    return admission, clock, inside[::10]


def test_a_burst_is_let_in_up_to_the_last_place() -> None:
    admission, _ = worker(1000)
    for _ in range(25):
        admission.enter(40, others_wait=True)
    assert admission.pairs == 1000
    refused(admission, 1)
    admission.enter(0, others_wait=True)  # all of it is known already


def test_lasting_overload_closes_the_queue_until_nobody_waits() -> None:
    _, _, inside = overload(times=5, seconds=60)
    assert max(inside[:5]) > 900
    assert max(inside[20:]) <= 20  # one request in the model and one that waits


def test_below_one_and_a_half_times_the_rate_the_queue_stays_long() -> None:
    _, _, inside = overload(times=1, seconds=60)
    assert max(inside) <= 20
    admission, clock = worker(1000)
    admission.enter(1000, others_wait=False)
    for second in range(60):  # 1.4 times what is computed
        clock.now_s = second
        admission.leave(100)
        admission.enter(100, others_wait=True)
        refused(admission, 40)
    assert admission.places > 900


def test_places_open_again_as_fast_as_pairs_are_computed() -> None:
    admission, clock, _ = overload(times=5, seconds=60)
    assert admission.places == 0
    clock.now_s += 5
    assert admission.places == 500
    clock.now_s += 60
    assert admission.places == 1000


def test_a_request_nobody_waits_before_is_let_in_whatever_was_refused() -> None:
    admission, _, _ = overload(times=5, seconds=60)
    admission.leave(admission.pairs)
    refused(admission, 30)
    admission.enter(1000, others_wait=False)
    refused(admission, 1, others_wait=False)  # but never more than the places there are


def test_one_large_request_refused_closes_twice_what_it_lacked() -> None:
    admission, _ = worker(1000)
    admission.enter(900, others_wait=False)
    refused(admission, 300)
    assert admission.places == 600


def test_retry_after_is_when_those_inside_have_left() -> None:
    admission, _ = worker(1000, pairs_per_s=100.0)
    admission.enter(950, others_wait=False)
    assert refused(admission, 100).retry_after_s == 10
    slow, _ = worker(1000, pairs_per_s=0.1)
    slow.enter(1000, others_wait=False)
    assert refused(slow, 1).retry_after_s == LONGEST_RETRY_S
    fresh = Admission(10)  # nothing computed yet
    fresh.enter(10, others_wait=False)
    assert refused(fresh, 1).retry_after_s == 1


def test_the_rate_follows_the_last_batches() -> None:
    admission, _ = worker(1000, pairs_per_s=100.0)
    for _ in range(200):
        admission.computed(10, 1.0)
    admission.enter(1000, others_wait=False)
    assert refused(admission, 1).retry_after_s == LONGEST_RETRY_S
    admission.leave(900)
    assert refused(admission, 1000).retry_after_s == 10
