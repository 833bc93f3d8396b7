"""Circuit breaker: a dependency that keeps failing is not asked for a while."""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

MAX_FAILURES = 3
OPEN_S = 30.0
PROBE_S = 2.0
"""Longest wait of a run for its call where that is the probe; the call goes on without it."""
MAX_HOSTS = 256
"""Hosts whose failures are remembered; the oldest is forgotten first."""
REMEMBERED_S = 120.0
"""Of a host, after its last failure: perhaps nobody asks it ever again."""

log = logging.getLogger(__name__)
A = TypeVar("A")
Refused = Callable[[str], Exception]


class Attempt:
    """One call; whoever makes it sets `has_failed` where the dependency is at fault.

    Of a probe `refused` makes an error of a reason, and `left` is set while it goes on in the
    background, for `probe_s` at most.
    """

    def __init__(self, refused: Refused | None = None, probe_s: float = OPEN_S) -> None:
        self.has_failed = False
        self.left: asyncio.Task[object] | None = None
        self._refused, self._probe_s = refused, probe_s

    async def through(self, call: Awaitable[A]) -> A:
        """What the call returns; raises what `refused` makes where a probe takes too long."""
        if self._refused is None:
            return await call
        # Not bound by the run's deadline: what it left says nothing of the dependency.
        probe = asyncio.create_task(_within(self._probe_s, call))
        try:
            done, _ = await asyncio.wait({probe}, timeout=PROBE_S)
        finally:
            self.left = None if probe.done() else probe
        if not done:
            raise self._refused(f"is being probed and has not answered within {PROBE_S:g} s")
        return probe.result()


async def _within(seconds: float, call: Awaitable[A]) -> A:
    async with asyncio.timeout(seconds):
        return await call


class CircuitBreaker:
    """Closed at first; open after `max_failures` in a row for `open_s`; then half-open.

    Half-open lets one call through as a probe, whose success closes it; nobody waits for it longer
    than PROBE_S. Calls that neither succeed nor fail (the request was refused, its client left)
    change nothing.
    """

    def __init__(
        self, name: str, *, max_failures: int = MAX_FAILURES, open_s: float = OPEN_S
    ) -> None:
        self.name = name
        self._max_failures, self._open_s = max_failures, open_s
        self._failures = 0
        self._open_until: float | None = None
        self._is_probing = False
        self._left: asyncio.Task[object] | None = None

    def openness(self) -> float:
        """0 closed, 1 open, 0.5 half-open."""
        if self._open_until is None:
            return 0.0
        return 1.0 if time.monotonic() < self._open_until else 0.5

    @property
    def has_failures(self) -> bool:
        """Whether the last call failed, as far as it had a verdict."""
        return self._failures > 0

    def close(self) -> None:
        self._failures, self._open_until = 0, None

    @contextmanager
    def attempt(self, refused: Refused) -> Iterator[Attempt]:
        """Around a call. Raises at once what `refused` makes of the reason while it is open."""
        is_probe = self._enter(refused)
        attempt = Attempt(refused if is_probe else None, self._open_s)
        try:
            yield attempt
        except BaseException:
            if attempt.has_failed and attempt.left is None:
                self._failed(is_probe=is_probe)
            raise
        else:
            self._succeeded(is_probe=is_probe)
        finally:
            if attempt.left is None:
                self._is_probing = self._is_probing and not is_probe
            else:
                self._left = attempt.left
                self._left.add_done_callback(self._probed)

    def _probed(self, probe: asyncio.Task[object]) -> None:
        """Takes in how a probe ended that nobody waited for any more."""
        self._is_probing, self._left = False, None
        if not probe.cancelled() and probe.exception() is None:
            self._succeeded(is_probe=True)
        else:
            self._failed(is_probe=True)

    def _enter(self, refused: Refused) -> bool:
        """Whether the call is the probe."""
        if self._open_until is None:
            return False
        left_s = self._open_until - time.monotonic()
        if left_s > 0 or self._is_probing:
            when = f"is asked again in {math.ceil(left_s)} s" if left_s > 0 else "is being probed"
            raise refused(f"failed {self._max_failures} times in a row and {when}")
        self._is_probing = True
        return True

    def _failed(self, *, is_probe: bool) -> None:
        if self._open_until is not None and not is_probe:
            return  # begun before it opened
        self._failures += 1
        if is_probe or self._failures >= self._max_failures:
            self._open_until = time.monotonic() + self._open_s
            log.warning("circuit breaker of %s is open for %g s", self.name, self._open_s)

    def _succeeded(self, *, is_probe: bool) -> None:
        if is_probe:
            log.info("circuit breaker of %s is closed", self.name)
        if is_probe or self._open_until is None:
            self.close()


class HostBreakers:
    """A circuit breaker for each host, shown as one: as open as any of them.

    Hosts are forgotten when a call of theirs succeeds, and some time after they failed.
    """

    def __init__(self, name: str, *, open_s: float = OPEN_S) -> None:
        self.name, self._open_s = name, open_s
        self._hosts: OrderedDict[str, tuple[CircuitBreaker, float]] = OrderedDict()

    def openness(self) -> float:
        """0 all closed, 1 one is open, 0.5 one is half-open."""
        self._forget()
        return max((breaker.openness() for breaker, _ in self._hosts.values()), default=0.0)

    def close(self) -> None:
        self._hosts.clear()

    @contextmanager
    def attempt(self, host: str, refused: Refused) -> Iterator[Attempt]:
        """Around a call of this host; see `CircuitBreaker.attempt`."""
        self._forget()
        made = CircuitBreaker(f"{self.name} of {host}", open_s=self._open_s)
        breaker, _ = self._hosts.setdefault(host, (made, time.monotonic()))
        attempt = Attempt()
        try:
            with breaker.attempt(refused) as attempt:
                yield attempt
        finally:
            if not breaker.has_failures:
                self._hosts.pop(host, None)
            elif attempt.has_failed:
                self._hosts[host] = breaker, time.monotonic()
                self._hosts.move_to_end(host)

    def _forget(self) -> None:
        since = time.monotonic() - REMEMBERED_S
        while self._hosts:
            _, failed_at = next(iter(self._hosts.values()))
            if len(self._hosts) <= MAX_HOSTS and failed_at >= since:
                break
            self._hosts.popitem(last=False)
