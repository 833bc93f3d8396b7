"""Retries: a call that failed for the moment is made again, in its time and in a budget of all."""

import asyncio
import math
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from app.resilience.deadline import CallLimit

MAX_RETRIES = 2
"""Of one call."""
FIRST_WAIT_S = 0.2
"""Doubled from retry to retry, less up to half of it by chance (jitter)."""
PATIENCE = 0.5
"""Of the time that is left, the most that is waited: the retry needs the rest."""
CALLS_PER_RETRY = 5
"""A dependency that is down gets 1.2 times the calls in the long run, no more."""
MAX_SAVED = 5
"""Retries that calls without any have earned, for a burst of failures."""


class RetryBudget:
    """Token bucket of one dependency: every call earns a part of a retry."""

    def __init__(self) -> None:
        self._saved = MAX_SAVED * CALLS_PER_RETRY

    def earn(self) -> None:
        self._saved = min(self._saved + 1, MAX_SAVED * CALLS_PER_RETRY)

    def spend(self) -> bool:
        """Whether there is a retry left; it is taken."""
        if self._saved < CALLS_PER_RETRY:
            return False
        self._saved -= CALLS_PER_RETRY
        return True


class Retries:
    """Those of one call, which must have ended at its limit with all of them."""

    def __init__(self, budget: RetryBudget, limit: CallLimit) -> None:
        self._budget, self._limit = budget, limit
        self._made = 0
        budget.earn()

    async def wait(self, retry_after_s: float = 0.0) -> bool:
        """True when it is time to try again, False at once where it is not worth the wait.

        `retry_after_s` is the least that the dependency wants to be let be.
        """
        backoff_s = FIRST_WAIT_S * 2**self._made * random.uniform(0.5, 1.0)
        wait_s = retry_after_s + backoff_s
        if self._made == MAX_RETRIES or wait_s > PATIENCE * self._left_s():
            return False
        if not self._budget.spend():
            return False
        self._made += 1
        await asyncio.sleep(wait_s)
        return True

    def _left_s(self) -> float:
        at = self._limit.at
        return math.inf if at is None else at - asyncio.get_running_loop().time()


def seconds_of(retry_after: str | None) -> float | None:
    """Of a `Retry-After` header, given in seconds or as an HTTP date; None where it says nothing.

    A date that is past says 0.
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
