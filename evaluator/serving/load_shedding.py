"""Who is let in: a burst may wait, lasting overload may not."""

import math
import time
from collections.abc import Callable

from evaluator.errors import Overloaded

REMEMBERED = 0.95  # of the batches before, at every batch: the rate is that of the last 20
LONGEST_RETRY_S = 60
CLOSED_A_PAIR = 2  # places: above 1.5 times of what can be computed the queue closes


class Admission:
    """A queue of `most_pairs` places, of which lasting overload closes one after another.

    A long queue serves a burst. Where more is asked all the time than can be computed, it serves
    nobody: everyone waits its whole length and no more gets done. So a refused pair closes two
    places, and places open again as fast as pairs are computed: below 1.5 times of what the worker
    can do the queue stays long, beyond it a request is soon let in only when no other one waits.
    One thread, the event loop's.
    """

    def __init__(self, most_pairs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.pairs = 0
        """Let in and not answered yet."""
        self._most = most_pairs
        self._clock = clock
        self._closed = 0.0
        self._closed_at = clock()
        self._computed = 0.0
        self._took_s = 0.0

    def enter(self, pairs: int, others_wait: bool) -> None:
        """Take as many places; Overloaded when there are not so many. Give them back by `leave`.

        `others_wait`: whether a request that was let in has pairs in no batch yet.
        """
        room = self.places if others_wait else self._most
        missing = self.pairs + pairs - room
        if pairs and missing > 0:
            closed = self._closed + CLOSED_A_PAIR * min(missing, pairs)
            self._closed = min(self._most, closed)
            raise self.refusal()
        self.pairs += pairs

    def refusal(self) -> Overloaded:
        """It says when those inside will have left."""
        rate = self._pairs_per_s
        wait_s = math.ceil(self.pairs / rate) if rate else 1
        return Overloaded(min(LONGEST_RETRY_S, max(1, wait_s)))

    def leave(self, pairs: int) -> None:
        self.pairs -= pairs

    def computed(self, pairs: int, took_s: float) -> None:
        """A batch is done: so many pairs in so many seconds."""
        self._computed = REMEMBERED * self._computed + pairs
        self._took_s = REMEMBERED * self._took_s + took_s

    @property
    def places(self) -> int:
        """Most pairs that may be there at present."""
        now = self._clock()
        self._closed = max(0.0, self._closed - (now - self._closed_at) * self._pairs_per_s)
        self._closed_at = now
        return self._most - math.ceil(self._closed)

    @property
    def _pairs_per_s(self) -> float:
        return self._computed / self._took_s if self._took_s else 0.0
