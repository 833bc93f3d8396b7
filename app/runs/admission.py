"""Admission: only what can be finished is taken on, in fair turns between owners.

How many runs may work at once follows their latency, as adaptive concurrency limits do: a run is
compared with runs that were alone. While runs take about as long as those, one more may work each
time all places were taken, and more slowly so once that was too many; where they take clearly
longer, fewer may. On two cores
that ends at a few, with a worker on a GPU or a distant language model at many. Behind them waits a
queue of half as many; whoever finds it full is told at once when to come back.
"""

import asyncio
import math
import os
import time
from collections import Counter
from dataclasses import dataclass, field

from app.errors import TooManyRuns

START = 4 * (os.cpu_count() or 1)
"""Runs that may work at once before anything is known of their latency."""
TOLERANCE = 1.4
"""Latency, in that of runs alone, from which on fewer may work."""
GROWTH = 0.1
"""Places more for each run that took no longer, by their number, once they were too many."""
SHRINK = 0.95
WORST = 4.0
"""No single run counts for more, in latency of runs alone."""
MEMORY = 0.1
"""Weight of the newest run in the means."""
FIRST_GUESS_S = 1.0
PATIENCE = 0.5
"""Longest wait in the queue, in mean times of a run."""


class Limit:
    """How many runs may work at once, at most `most`; learnt from each run that ends."""

    def __init__(self, most: int, start: int = START) -> None:
        self._most, self._value = most, float(min(most, start))
        self._alone_s: float | None = None
        self._ratio = 1.0
        self._was_exceeded = False
        self.mean_s = FIRST_GUESS_S

    @property
    def places(self) -> int:
        return max(1, int(self._value))

    def learn(self, took_s: float, *, was_alone: bool, was_full: bool) -> None:
        """A run ended after `took_s` at work; `was_alone`: no other was under way meanwhile."""
        self.mean_s += MEMORY * (took_s - self.mean_s)
        if was_alone:
            known = took_s if self._alone_s is None else self._alone_s
            self._alone_s = known + MEMORY * (took_s - known)
        if not self._alone_s:
            return
        self._ratio += MEMORY * (min(WORST, took_s / self._alone_s) - self._ratio)
        if self._ratio > TOLERANCE:
            self._value = max(1.0, self._value * SHRINK)
            self._was_exceeded = True
        elif was_full:
            step = GROWTH / self._value if self._was_exceeded else 1.0
            self._value = min(float(self._most), self._value + step)


@dataclass(eq=False, slots=True)
class Place:
    """A run's right to work, until `Admission.leave`."""

    owner: str
    began_s: float
    was_alone: bool = True
    was_full: bool = False
    waited_s: float = 0.0


@dataclass(eq=False, slots=True)
class _Waiting:
    owner: str
    since_s: float = field(default_factory=time.monotonic)
    turn: asyncio.Future[Place] = field(default_factory=lambda: asyncio.Future())


class Admission:
    """Places for runs: at most `most`, as many as `Limit` allows; one event loop's own."""

    def __init__(self, most: int, start: int = START) -> None:
        self.limit = Limit(most, start)
        self._at_work: set[Place] = set()
        self._held: Counter[str] = Counter()
        self._queue: list[_Waiting] = []

    @property
    def at_work(self) -> int:
        return len(self._at_work)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def free(self) -> int:
        """Places that nobody waits for."""
        return 0 if self._queue else max(0, self.limit.places - self.at_work)

    async def enter(self, owner: str, within_s: float) -> Place:
        """A place, at once or by turn within that time. Raises TooManyRuns, mostly at once."""
        if not self._queue and self._may_work(owner):
            return self.place(owner)
        wait_s = self._expected_wait_s(self.waiting + 1)
        if not self._may_wait(owner) or wait_s + self.limit.mean_s > within_s:
            raise self._refusal()
        entry = _Waiting(owner)
        self._queue.append(entry)
        self._admit()
        try:
            async with asyncio.timeout(min(within_s, PATIENCE * self.limit.mean_s)):
                return await entry.turn
        except BaseException as error:
            if entry.turn.done() and not entry.turn.cancelled():
                self.leave(entry.turn.result())
            if isinstance(error, TimeoutError):
                raise self._refusal() from None
            raise
        finally:
            if entry in self._queue:
                self._queue.remove(entry)

    def leave(self, place: Place, took_s: float | None = None) -> None:
        """The run has ended; `took_s` where its time says something about the load."""
        self._at_work.discard(place)
        self._held[place.owner] -= 1
        if not self._held[place.owner]:
            del self._held[place.owner]
        if took_s is not None:
            self.limit.learn(took_s, was_alone=place.was_alone, was_full=place.was_full)
        self._admit()

    def _admit(self) -> None:
        """Gives free places away: first to the owner who holds the fewest, then as they came."""
        while self.at_work < self.limit.places:
            able = [entry for entry in self._queue if self._may_work(entry.owner)]
            if not able:
                return
            entry = min(able, key=lambda each: self._held[each.owner])
            self._queue.remove(entry)
            if not entry.turn.done():
                place = self.place(entry.owner)
                place.waited_s = place.began_s - entry.since_s
                entry.turn.set_result(place)

    def _may_work(self, owner: str) -> bool:
        """One owner among several leaves the last place to others."""
        places = self.limit.places
        if owner and places > 1 and self._held[owner] >= max(1, places // 2):
            return self.at_work < places - 1
        return self.at_work < places

    def _may_wait(self, owner: str) -> bool:
        most = max(1, self.limit.places // 2)
        mine = sum(entry.owner == owner for entry in self._queue)
        share = max(1, most // 2) if owner else most
        # Whoever has nothing waiting may always stand in line, beyond the queue's end as well.
        return mine < share and (self.waiting < most or (bool(owner) and not mine))

    def place(self, owner: str) -> Place:
        """One at once, whatever the load: for a run that was taken on already."""
        place = Place(owner, time.monotonic())
        self._at_work.add(place)
        self._held[owner] += 1
        if self.at_work > 1:
            for each in self._at_work:
                each.was_alone = False
        if self.at_work >= self.limit.places:
            for each in self._at_work:
                each.was_full = True
        return place

    def _expected_wait_s(self, turn: int) -> float:
        return self.limit.mean_s * turn / self.limit.places

    def _refusal(self) -> TooManyRuns:
        wait_s = self._expected_wait_s(self.waiting + 1)
        return TooManyRuns(self.at_work, self.waiting, math.ceil(max(1.0, wait_s)))
