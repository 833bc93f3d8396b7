"""A batch that fails is taken apart until the item at fault stands alone."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

log = logging.getLogger(__name__)


def by_halves(
    call: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item], whose: str
) -> list[Result | str]:
    """What `call` makes of the items; where it raises, each item at fault gets a reason instead.

    `whose` names the caller in that reason and in the log, which gets the first traceback only.
    One item at fault among n costs some 2 log2(n) more calls of falling size.
    """
    try:
        return [*call(items)]
    except Exception as error:
        log.exception("The %s failed on %d pairs.", whose, len(items))
        return _apart(call, items, whose, error)


def _apart(
    call: Callable[[Sequence[Item]], Sequence[Result]],
    items: Sequence[Item],
    whose: str,
    error: Exception,
) -> list[Result | str]:
    if len(items) == 1:
        return [f"The {whose} failed on this pair ({type(error).__name__})."]
    results = list[Result | str]()
    middle = len(items) // 2
    for half in (items[:middle], items[middle:]):
        try:
            results += call(half)
        except Exception as again:  # noqa: BLE001 - told to the row at fault
            results += _apart(call, half, whose, again)
    return results
