"""Admission control: quotas, and a bounded queue by deadlines with fair turns between owners.

A run holds a place while this machine is busy with it. While it waits for another machine, such as
a language model's, the place is another run's; when the reply comes it goes on at once. Whoever
finds no place waits as long as its deadline and the settings allow. Whoever would wait longer, at
the rate of the latest turns, is told at once when a place is expected.
"""

import asyncio
import math
import os
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter

from app.errors import QuotaExceeded, TooManyRuns
from app.resilience.deadline import listen_to_waits
from graphs.types import Usage

PLACES = 4 * (os.cpu_count() or 1)
"""Runs that this machine is busy with at once: enough to fill the evaluator's batches."""
WAIT_S = 30.0
Kind = Literal["runs", "tokens", "searches", "uploads"]
SPENT: tuple[Kind, ...] = ("tokens", "searches")


@dataclass(eq=False, slots=True)
class Place:
    """A run's right to work, until `Admission.leave`."""

    owner: str
    waited_s: float = 0.0
    waits_elsewhere: int = 0
    """For so many replies of other machines."""


@dataclass(eq=False, slots=True)
class _Waiting:
    owner: str
    since_s: float
    ends_at: float
    turn: asyncio.Future[Place] = field(default_factory=lambda: asyncio.Future())


class Admission:
    """At most `most` runs at work, `places` of them busy here, and `most` more waiting `wait_s`.

    One event loop's own.
    """

    def __init__(self, most: int, wait_s: float = WAIT_S, places: int = PLACES) -> None:
        self._most, self._wait_s, self.places = most, wait_s, min(most, places)
        self._at_work: set[Place] = set()
        self._queue: list[_Waiting] = []
        self._turns: deque[float] = deque(maxlen=2 * self.places + 1)

    @property
    def at_work(self) -> int:
        return len(self._at_work)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def free(self) -> int:
        """Places that nobody waits for."""
        return 0 if self._queue else max(0, self._left())

    async def enter(self, owner: str, within_s: float) -> Place:
        """A place, at once or by turn within that time. Raises TooManyRuns, mostly at once."""
        if not self._queue:
            if self._may_work(owner):
                return self.place(owner)
            self._turns.clear()  # another rush, perhaps of other runs
            self._turns.append(time.monotonic())
        now = time.monotonic()
        entry = _Waiting(owner, now, now + within_s)
        wait_s, work_s = self._expected_s(entry)
        if not self._may_wait(owner) or wait_s > min(self._wait_s, within_s - work_s):
            raise self._refusal(entry)
        self._queue.append(entry)
        self._admit()
        try:
            async with asyncio.timeout(min(self._wait_s, within_s)):
                return await entry.turn
        except BaseException as error:
            if entry.turn.done() and not entry.turn.cancelled() and not entry.turn.exception():
                self.leave(entry.turn.result())
            if isinstance(error, TimeoutError):
                raise self._refusal(entry) from None
            raise
        finally:
            if entry in self._queue:
                self._queue.remove(entry)

    def place(self, owner: str) -> Place:
        """One at once, whatever the load: for a run that was taken on already."""
        place = Place(owner)
        self._at_work.add(place)
        return place

    def work(self, place: Place) -> None:
        """In this context the run works: its waits for other machines leave its place to others."""

        def tell(change: int) -> None:
            place.waits_elsewhere += change
            self._admit()

        listen_to_waits(tell)

    def leave(self, place: Place) -> None:
        self._at_work.discard(place)
        self._admit()

    def turn_away(self) -> None:
        """Whoever waits is refused, for the service ends."""
        for entry in self._queue:
            if not entry.turn.done():
                entry.turn.set_exception(self._refusal(entry))

    def _admit(self) -> None:
        """Gives free places away: first to the owner who holds the fewest, then by deadline."""
        while self._queue and self._left() > 0:
            able = [entry for entry in self._queue if self._may_work(entry.owner)]
            if not able:
                return
            held = Counter(place.owner for place in self._at_work)
            entry = min(able, key=lambda each: (held[each.owner], each.ends_at))
            self._queue.remove(entry)
            if not entry.turn.done():
                self._turns.append(time.monotonic())
                place = self.place(entry.owner)
                place.waited_s = self._turns[-1] - entry.since_s
                entry.turn.set_result(place)

    def _busy(self) -> list[str]:
        """The owners of the runs that this machine is busy with."""
        return [place.owner for place in self._at_work if place.waits_elsewhere == 0]

    def _left(self) -> int:
        return min(self.places - len(self._busy()), self._most - self.at_work)

    def _may_work(self, owner: str) -> bool:
        """An owner that holds half of the places leaves the last one to others."""
        busy, all_ = self._busy(), [place.owner for place in self._at_work]
        return all(
            len(taken) < most - bool(owner and most > 1 and taken.count(owner) >= most // 2)
            for taken, most in ((busy, self.places), (all_, self._most))
        )

    def _may_wait(self, owner: str) -> bool:
        mine = sum(entry.owner == owner for entry in self._queue)
        if owner and not mine:
            return True  # whoever has nothing waiting may always stand in line
        return self.waiting < self._most and not (owner and mine >= self._most // 2)

    def _expected_s(self, entry: _Waiting) -> tuple[float, float]:
        """How long the entry would wait for its turn, and then work, at the rate of the turns."""
        turns = len(self._turns) - 1
        if turns <= self.places:  # the runs of the first round may all be about to end
            turns += self.places
        turn_s = (time.monotonic() - self._turns[0]) / turns
        others = Counter(each.owner for each in self._queue)
        del others[entry.owner]
        own = (each for each in self._queue if each.owner == entry.owner)
        place = 1 + sum(each.ends_at < entry.ends_at for each in own)
        place += sum(min(many, place) for many in others.values())  # owners take turns
        return turn_s * place, turn_s * self.at_work

    def _refusal(self, entry: _Waiting) -> TooManyRuns:
        wait_s, _ = self._expected_s(entry)
        return TooManyRuns(self.at_work, self.waiting, math.ceil(max(1.0, wait_s)))


class Quotas:
    """How many runs, tokens, searches and uploads an owner of keys may use in a while.

    By kind what the settings allow, such as `100/hour`; what is not named is not bounded. Tokens
    and searches are counted when a run ends: the last one within the quota may exceed it. Counts
    are kept in the memory of one process and begin anew with it.
    """

    def __init__(self, allowed: Mapping[Kind, str]) -> None:
        self._items: dict[Kind, RateLimitItem] = {
            kind: parse(text) for kind, text in allowed.items() if text
        }
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    async def take(self, kind: Literal["runs", "uploads"], owner: str) -> None:
        """One of this kind. Raises QuotaExceeded, of runs also where tokens or searches are out."""
        for spent in SPENT if kind == "runs" else ():
            item = self._items.get(spent)
            if item is not None and not await self._limiter.test(item, spent, owner):
                raise await self._refusal(spent, item, owner)
        item = self._items.get(kind)
        if item is not None and not await self._limiter.hit(item, kind, owner):
            raise await self._refusal(kind, item, owner)

    async def spend(self, owner: str, usage: Usage) -> None:
        """What a run has used."""
        used = {
            "tokens": usage.input_tokens + usage.output_tokens,
            "searches": usage.web_searches,
        }
        for kind in SPENT:
            if (item := self._items.get(kind)) and (amount := used[kind]):
                await self._limiter.hit(item, kind, owner, cost=amount)

    async def _refusal(self, kind: Kind, item: RateLimitItem, owner: str) -> QuotaExceeded:
        stats = await self._limiter.get_window_stats(item, kind, owner)
        allowed = f"{item.amount} {kind} per {item.GRANULARITY.name}"
        return QuotaExceeded(allowed, max(1, math.ceil(stats.reset_time - time.time())))
