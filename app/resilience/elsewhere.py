"""Time that a run waits for another machine, which is no load of this one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_tell: ContextVar[Callable[[int], None] | None] = ContextVar("elsewhere", default=None)


def listen(tell: Callable[[int], None]) -> None:
    """From now on `tell` hears +1 and -1 around each wait in this context."""
    _tell.set(tell)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Around a wait for another machine; not around one for a turn at it, which is a queue here."""
    tell = _tell.get() or (lambda _: None)
    tell(1)
    try:
        yield
    finally:
        tell(-1)
