"""What the overhead is measured on: parts that answer at once, or as slowly as they are told."""

# ruff: noqa: ARG002 - a port says what it is given, a stand-in does not look at it

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict

from graphs.options import Search
from graphs.ports import Services
from graphs.types import (
    Bars,
    Degraded,
    Draft,
    Judgement,
    Passage,
    Scores,
    Task,
    Thresholds,
    Usage,
    WebPage,
)

PORT = "port"
"""The file of its folder in which the service says where it listens."""
PARTS = ("retriever", "evaluator", "web search", "chat", "critic")
QUESTION = "How tall is the red tower of Umbra, and who repaired it?"
ANSWER = "The red tower of Umbra is 87 metres tall [1]. Masons of Orlo repaired it [2]."
GOOD = Judgement(relevance=1.0, support=1.0, utility=1.0)
PASSAGES = tuple(
    Passage(
        id=f"p{number}",
        text=f"The red tower of Umbra is {80 + number} metres tall. Masons of Orlo repaired it in "
        f"18{number:02}. Its bell is heard as far as the harbour. Visitors climb {number} stairs.",
        title=f"Towers, part {number}",
        source=f"towers/part_{number}.md",
        retrieval_score=1 - number / 20,
    )
    for number in range(10)
)


@dataclass
class Pace:
    """How long each part takes, 0 unless said; what waits remembers when it was let go.

    Times are `time.perf_counter()`, on Linux the same clock in all processes.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    began_at_s: list[float] = field(default_factory=list)
    let_go_at_s: list[float] = field(default_factory=list)

    async def of(self, part: str) -> None:
        if not (seconds := self.seconds.get(part, 0)):
            return
        self.began_at_s.append(time.perf_counter())
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.let_go_at_s.append(time.perf_counter())
            raise


@dataclass
class PacedRetriever:
    pace: Pace

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        await self.pace.of("retriever")
        return PASSAGES[:k]

    async def ready(self) -> bool:
        return True


@dataclass
class PacedEvaluator:
    """Finds every pair relevant, a little less from row to row."""

    pace: Pace
    name: str = "paced"
    thresholds: Thresholds = field(default_factory=lambda: Thresholds(0.5, -0.5, -0.5))

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        await self.pace.of("evaluator")
        return Scores(tuple(0.9 - row / 100 for row in range(len(pairs))))

    async def ready(self) -> bool:
        return True


@dataclass
class PacedSearch:
    pace: Pace

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        await self.pace.of("web search")
        text = "The red tower of Umbra was repaired by masons of Orlo."
        return [WebPage("https://example.org/tower", "Tower", 0.9, (text,))], ()


@dataclass
class PacedCritic:
    """Accepts every draft."""

    pace: Pace
    name: str = "paced"
    bars: Bars = field(default_factory=Bars)

    async def needs_retrieval(self, question: str) -> tuple[float, Usage]:
        return 1.0, Usage()

    async def judge(
        self, question: str, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Judgement], Usage]:
        await self.pace.of("critic")
        return [GOOD] * len(drafts), Usage()

    async def criticise(
        self, question: str, draft: Draft, judgement: Judgement, /
    ) -> tuple[str, Usage]:
        return "", Usage()


class PacedKeywords:
    async def keywords(self, question: str, most: int) -> Sequence[str]:
        return ["Umbra", "tower"][:most]


class PacedChat(BaseChatModel):
    """Says ANSWER word by word; rewrites a question to two words, at once."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    pace: Pace

    @property
    def _llm_type(self) -> str:
        return "paced"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Umbra tower"))])

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        await self.pace.of("chat")
        for word in ANSWER.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))


def paced_services(pace: Pace) -> Services:
    """Everything a graph may call, at this pace."""
    return Services(
        retriever=PacedRetriever(pace),
        evaluator=PacedEvaluator(pace),
        keyword_extractor=PacedKeywords(),
        web_search=PacedSearch(pace),
        chat=PacedChat(pace=pace),
        chat_name="paced",
        critic=PacedCritic(pace),
    )
