"""Parts that take their time, and remember when they were called and when they were let go."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field

from graphs.options import Search
from graphs.types import Degraded, Passage, Scores, Task, WebPage
from tests.fakes import FakeChat, FakeEvaluator, FakeRetriever, FakeWebSearch


@dataclass
class Waiting:
    """Waits; `at_s` are the times (perf_counter) a wait began, `left_s` those it was cancelled."""

    seconds: float = 30.0
    at_s: list[float] = field(default_factory=list)
    left_s: list[float] = field(default_factory=list)

    async def wait(self) -> None:
        self.at_s.append(time.perf_counter())
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.left_s.append(time.perf_counter())
            raise


@dataclass
class SlowRetriever(FakeRetriever):
    waiting: Waiting = field(default_factory=Waiting)

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        await self.waiting.wait()
        return await super().retrieve(query, k)


@dataclass
class SlowEvaluator(FakeEvaluator):
    waiting: Waiting = field(default_factory=Waiting)

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        await self.waiting.wait()
        return await super().score(task, pairs)


@dataclass
class SlowWebSearch(FakeWebSearch):
    waiting: Waiting = field(default_factory=Waiting)

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        await self.waiting.wait()
        return await super().search(query, max_pages)


class SlowChat(FakeChat):
    """Waits after the first chunk of an answer, and before a rewriting."""

    waiting: Waiting = Field(default_factory=Waiting)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        await self.waiting.wait()
        return self._generate(messages)

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        number = 0
        async for chunk in super()._astream(messages):
            if number == 1:
                await self.waiting.wait()
            number += 1
            yield chunk
