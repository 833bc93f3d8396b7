"""Questions without pause, while something happens to who answers them."""

import asyncio
from collections.abc import Callable

import pytest

from evaluator.client import EvaluatorClient

PAIRS = [("How long is the river?", f"The river is {number} km long.") for number in range(6)]
ASKING = 8
BEFORE, AFTER = 20, 60


async def answered_throughout(client: EvaluatorClient, happens: Callable[[], None]) -> None:
    """BEFORE questions, then it happens, then AFTER more; fails where an answer is lost."""
    wanted = (await client.score("relevance", PAIRS)).scores
    numbers = iter(range(BEFORE + AFTER))

    async def ask() -> None:
        for number in numbers:
            if number == BEFORE:
                happens()
            scored = await client.score("relevance", PAIRS)
            assert scored.errors == []
            assert scored.scores == pytest.approx(wanted, abs=1e-5)

    async with asyncio.TaskGroup() as group:
        for _ in range(ASKING):
            group.create_task(ask())
