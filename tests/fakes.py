"""Stand-ins for the ports, small enough to be read: what the graphs are tested with."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from graphs.errors import EvaluatorFailed, GeneratorFailed, RetrieverFailed, SearchFailed
from graphs.ports import Services
from graphs.types import Degraded, Passage, Scores, Task, Thresholds, WebPage

THRESHOLDS = Thresholds(upper=0.5, lower=-0.5, strip_floor=-0.5)
WORD = re.compile(r"[a-z0-9]{3,}|[\u4e00-\u9fff]")


def overlap(question: str, passage: str) -> float:
    """-1 … 1: how many of the question's words the passage holds."""
    asked = set(WORD.findall(question.lower()))
    return 2 * len(asked & set(WORD.findall(passage.lower()))) / max(1, len(asked)) - 1


@dataclass
class FakeRetriever:
    passages: Sequence[Passage] = ()
    fails: bool = False
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def retrieve(self, query: str, k: int) -> Sequence[Passage]:
        self.asked.append((query, k))
        if self.fails:
            raise RetrieverFailed("the index is gone")
        return self.passages[:k]

    async def ready(self) -> bool:
        return not self.fails


@dataclass
class FakeEvaluator:
    """Scores by `known` text, else by word overlap; None in `known` cannot be scored."""

    known: Mapping[str, float | None] = field(default_factory=dict)
    thresholds: Thresholds = THRESHOLDS
    fails_from_call: int | None = None
    calls: list[list[tuple[str, str]]] = field(default_factory=list)
    name: str = "fake-evaluator"

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self.calls.append(list(pairs))
        if self.fails_from_call is not None and len(self.calls) >= self.fails_from_call:
            raise EvaluatorFailed("the worker is gone")
        bare = [(question, text.rpartition(" // ")[2]) for question, text in pairs]
        return Scores(
            tuple(self.known[text] if text in self.known else overlap(q, text) for q, text in bare)
        )

    async def ready(self) -> bool:
        return self.fails_from_call is None


@dataclass
class FakeWebSearch:
    pages: Sequence[WebPage] = ()
    degraded: Sequence[Degraded] = ()
    fails: bool = False
    queries: list[str] = field(default_factory=list)

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        self.queries.append(query)
        if self.fails:
            raise SearchFailed("the search engine is gone")
        return self.pages[:max_pages], self.degraded


class FakeKeywords:
    async def keywords(self, question: str, most: int) -> Sequence[str]:
        return [word for word in question.strip("?？").split() if word[:1].isupper()][:most]


class FakeChat(BaseChatModel):
    """Answers in `chunks`, rewrites to `keywords`; every call counts 10 tokens in and 3 out.

    `fails_after` chunks of an answer it fails; `fails_to_rewrite` fails the other prompt.
    """

    chunks: list[str] = Field(default_factory=list)
    keywords: str = ""
    fails_after: int | None = None
    fails_to_rewrite: bool = False
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "fake-chat"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        self.asked.append(messages)
        if self.fails_to_rewrite:
            raise GeneratorFailed("the model is gone")
        usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
        message = AIMessage(self.keywords, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.asked.append(messages)
        for number, text in enumerate(self.chunks):
            if number == self.fails_after:
                raise GeneratorFailed("the model is gone")
            yield ChatGenerationChunk(message=AIMessageChunk(text))
        usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=usage))

    def prompt(self, call: int = -1) -> str:
        """What was said to it in one call, system and user together."""
        return "\n".join(str(message.text) for message in self.asked[call])


def services(
    retriever: FakeRetriever | None = None,
    evaluator: FakeEvaluator | None = None,
    web_search: FakeWebSearch | None = None,
    chat: BaseChatModel | None = None,
) -> Services:
    return Services(
        retriever=retriever or FakeRetriever(),
        evaluator=evaluator or FakeEvaluator(),
        keyword_extractor=FakeKeywords(),
        web_search=web_search,
        chat=chat,
        chat_name="fake-chat" if chat else "extractive",
    )


def passage(text: str, number: int = 0, source: str = "docs/en/page.md") -> Passage:
    return Passage(id=f"p{number}", text=text, title=f"Page {number}", source=source, score=0.1)
