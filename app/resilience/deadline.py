"""A run's time: what a call gets of what is left, and waits for others that are no load of ours.

Deadline propagation: a call gets what its run has left, less the time its fallback needs.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

RESERVE_SHARE = 0.1
"""Of a run's time, kept back for what stands in for a call that hangs."""
MIN_RESERVE_S, MAX_RESERVE_S = 0.1, 2.0
TELLING_S = 1.0
"""A dependency that was silent for so long is at fault, not the run that left it little time."""


@dataclass(frozen=True, slots=True)
class _Run:
    ends_at: float
    reserve_s: float


@dataclass(frozen=True, slots=True)
class CallLimit:
    """When a call must have ended, on the clock of the event loop, and how long it then had.

    `at` is None where nothing bounds it. `by_run`: the run's deadline is nearer than the call's own
    time limit.
    """

    at: float | None
    seconds: float
    by_run: bool

    @property
    def is_over(self) -> bool:
        """Whether the run leaves no time for a call."""
        return self.by_run and self.seconds <= 0

    def share(self, part: float) -> "CallLimit":
        """A nearer limit, for a part of the call; of a call that begins now."""
        if self.at is None or part == 1:
            return self
        seconds = part * self.seconds
        return replace(self, at=self.at - self.seconds + seconds, seconds=seconds)

    def __str__(self) -> str:
        return f"{self.seconds:.3g} s" + (", all that the run's deadline left" * self.by_run)


NO_TIME = "was not asked, for the run's deadline left no time"

_run: ContextVar[_Run | None] = ContextVar("run", default=None)
_tell_wait: ContextVar[Callable[[int], None] | None] = ContextVar("tell_wait", default=None)


@contextmanager
def run_ends_at(ends_at: float) -> Iterator[None]:
    """Bounds all calls made within, in tasks begun within as well."""
    left_s = ends_at - asyncio.get_running_loop().time()
    reserve_s = min(max(MIN_RESERVE_S, RESERVE_SHARE * left_s), MAX_RESERVE_S, left_s / 2)
    token = _run.set(_Run(ends_at, reserve_s))
    try:
        yield
    finally:
        _run.reset(token)


def call_limit(timeout_s: float | None = None, *, reserve: float = 1.0) -> CallLimit:
    """The nearer of the call's own time limit and its run's end, for a call that begins now.

    `reserve`: the part of the run's reserve that the call must leave untouched. Outside of a run
    the own limit counts alone.
    """
    now = asyncio.get_running_loop().time()
    run = _run.get()
    if run is not None:
        left_s = run.ends_at - reserve * run.reserve_s - now
        if timeout_s is None or left_s < timeout_s:
            return CallLimit(now + left_s, left_s, by_run=True)
    if timeout_s is None:
        return CallLimit(None, float("inf"), by_run=False)
    return CallLimit(now + timeout_s, timeout_s, by_run=False)


def is_outage(limit: CallLimit, waited_s: float) -> bool:
    """Whether a call that reached its limit says that the dependency hangs."""
    return not limit.by_run or waited_s >= TELLING_S


def listen_to_waits(tell: Callable[[int], None]) -> None:
    """From now on `tell` hears +1 and -1 around each wait in this context."""
    _tell_wait.set(tell)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Around a wait for another machine; not around one for a turn at it, which is a queue here."""
    tell = _tell_wait.get() or (lambda _: None)
    tell(1)
    try:
        yield
    finally:
        tell(-1)
