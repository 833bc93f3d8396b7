"""What becomes of a batch in which some items make the call raise."""

import logging
from collections.abc import Sequence

import pytest

from evaluator.serving.bisect import by_halves


@pytest.mark.parametrize("bad", [{0}, {7}, {3, 4, 11}, set(range(12)), set()])
def test_only_the_items_at_fault_get_a_reason(bad: set[int]) -> None:
    def doubled(items: Sequence[int]) -> list[int]:
        if bad & set(items):
            raise ArithmeticError("secret")
        return [2 * item for item in items]

    assert by_halves(doubled, range(12), "abacus") == [
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
        by_halves(failing, range(8), "abacus")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "call 1"
    assert calls == 15
