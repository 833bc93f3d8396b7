"""Quotas: how many runs, tokens, searches and uploads an owner of keys may use in a while.

Tokens and searches are counted when a run ends: the last one within the quota may exceed it.
Counts are kept in the memory of one process and begin anew with it.
"""

import math
import time
from collections.abc import Mapping
from typing import Literal

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter

from app.errors import QuotaExceeded
from graphs.types import Usage

Kind = Literal["runs", "tokens", "searches", "uploads"]
SPENT: tuple[Kind, ...] = ("tokens", "searches")


class Quotas:
    """By kind what the settings allow, such as `100/hour`; what is not named is not bounded."""

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
