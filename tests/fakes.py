"""Stand-ins for the ports, small enough to be read: what the graphs are tested with."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from graphs.critics.evaluator import EvaluatorCritic
from graphs.errors import (
    CriticFailed,
    EvaluatorFailed,
    GeneratorFailed,
    RetrieverFailed,
    SearchFailed,
)
from graphs.options import Search
from graphs.ports import Critic, Services
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
from prompts import prompt

THRESHOLDS = Thresholds(upper=0.5, lower=-0.5, strip_floor=-0.5)
WORD = re.compile(r"[a-z0-9]{3,}|[\u4e00-\u9fff]")
GOOD = Judgement(relevance=1.0, support=1.0, utility=1.0)
POOR = Judgement(relevance=1.0, support=0.2, utility=-0.5)


def overlap(question: str, passage: str) -> float:
    """-1 … 1: how many of the question's words the passage holds."""
    asked = set(WORD.findall(question.lower()))
    return 2 * len(asked & set(WORD.findall(passage.lower()))) / max(1, len(asked)) - 1


@dataclass
class FakeRetriever:
    passages: Sequence[Passage] = ()
    fails: bool = False
    asked: list[tuple[str, int]] = field(default_factory=list)
    searches: list[Search | None] = field(default_factory=list)

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        self.asked.append((query, k))
        self.searches.append(search)
        if self.fails:
            raise RetrieverFailed("the index is gone")
        return self.passages[:k]

    async def ready(self) -> bool:
        return not self.fails


class BrokenRetriever(FakeRetriever):
    """A fault of ours, not of a part outside."""

    async def retrieve(self, *_: object, **__: object) -> Sequence[Passage]:
        raise ZeroDivisionError

    async def ready(self) -> bool:
        raise ZeroDivisionError


@dataclass
class KnowingRetriever(FakeRetriever):
    """Finds what `known` says for a query, else `passages`."""

    known: Mapping[str, Sequence[Passage]] = field(default_factory=dict)

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        found = await super().retrieve(query, k, search)
        return self.known[query][:k] if query in self.known else found


@dataclass
class HalfGoneRetriever(FakeRetriever):
    """From its second call on it fails, with what is `left` found all the same."""

    left: Sequence[Passage] = ()

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        found = await super().retrieve(query, k, search)
        if len(self.asked) > 1:
            raise RetrieverFailed("half of the index is gone", self.left)
        return found


@dataclass
class FakeEvaluator:
    """Scores by `known` text, else by word overlap; None in `known` cannot be scored.

    From the n-th call on it scores nothing, but answers, where `scores_until_call` says so.
    """

    known: Mapping[str, float | None] = field(default_factory=dict)
    thresholds: Thresholds = THRESHOLDS
    bars: Bars = field(default_factory=Bars)
    fails_from_call: int | None = None
    scores_until_call: int | None = None
    calls: list[list[tuple[str, str]]] = field(default_factory=list)
    name: str = "fake-evaluator"
    tasks: list[Task] = field(default_factory=list)

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self.calls.append(list(pairs))
        self.tasks.append(task)
        if self.fails_from_call is not None and len(self.calls) >= self.fails_from_call:
            raise EvaluatorFailed("the worker is gone")
        if self.scores_until_call is not None and len(self.calls) >= self.scores_until_call:
            return Scores(tuple(None for _ in pairs))
        bare = [(question, text.rpartition(" // ")[2]) for question, text in pairs]
        return Scores(
            tuple(self.known[text] if text in self.known else overlap(q, text) for q, text in bare)
        )

    async def ready(self) -> bool:
        return self.fails_from_call is None


class BrokenEvaluator(FakeEvaluator):
    """A fault of ours, not of a part outside."""

    async def score(self, *_: object) -> Scores:
        raise ZeroDivisionError("a fault of ours")


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


@dataclass
class FakeCritic:
    """Judges an answer as `known` says, else the n-th draft by `script`, its last from then on.

    The n-th criticism is the n-th of `words`, round and round. From the n-th call of `judge` on it
    fails where `fails_from_call` says so; every judged draft costs `costs`.
    """

    known: Mapping[str, Judgement] = field(default_factory=dict)
    script: Sequence[Judgement] = (GOOD,)
    share: float | None = 1.0
    words: Sequence[str] = ("Say more.",)
    fails_from_call: int | None = None
    fails_to_criticise: bool = False
    costs: Usage = field(default_factory=Usage)
    bars: Bars = field(default_factory=Bars)
    name: str = "fake-critic"
    asked: list[str] = field(default_factory=list)
    judged: list[list[str]] = field(default_factory=list)
    criticised: list[str] = field(default_factory=list)

    async def needs_retrieval(self, question: str) -> tuple[float, Usage]:
        self.asked.append(question)
        if self.share is None:
            raise CriticFailed("the critic is gone")
        return self.share, Usage()

    async def judge(
        self, question: str, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Judgement], Usage]:
        before = sum(map(len, self.judged))
        self.judged.append([draft.answer for draft in drafts])
        if self.fails_from_call is not None and len(self.judged) >= self.fails_from_call:
            raise CriticFailed("the critic is gone")
        found = [
            self.known.get(draft.answer, self.script[min(n, len(self.script) - 1)])
            for n, draft in enumerate(drafts, start=before)
        ]
        return found, sum((self.costs for _ in drafts), Usage())

    async def criticise(
        self, question: str, draft: Draft, judgement: Judgement, /
    ) -> tuple[str, Usage]:
        self.criticised.append(draft.answer)
        if self.fails_to_criticise:
            raise CriticFailed("the critic is at a loss")
        return self.words[(len(self.criticised) - 1) % len(self.words)], Usage()


class FakeKeywords:
    async def keywords(self, question: str, most: int) -> Sequence[str]:
        return [word for word in question.strip("?？").split() if word[:1].isupper()][:most]


_USED = UsageMetadata(input_tokens=10, output_tokens=3, total_tokens=13)
_ANSWERING = frozenset(
    prompt(name, language).render()
    for name in ("answer_system", "direct_system")
    for language in ("en", "zh")
)


def asks_for_answer(messages: Sequence[BaseMessage]) -> bool:
    """And not for keywords, a query or a judgement."""
    return str(messages[0].text) in _ANSWERING


class FakeChat(BaseChatModel):
    """Answers in `chunks`, rewrites to `keywords`; every call counts 10 tokens in and 3 out.

    `fails_after` chunks of an answer it fails; it rests `pause_s` after each. `fails_to_rewrite`
    fails the other prompt.
    """

    chunks: list[str] = Field(default_factory=list)
    keywords: str = ""
    fails_after: int | None = None
    fails_to_rewrite: bool = False
    pause_s: float = 0
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
        message = AIMessage(self.keywords, usage_metadata=_USED)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.asked.append(messages)
        is_answer = asks_for_answer(messages)
        if self.fails_to_rewrite and not is_answer:
            raise GeneratorFailed("the model is gone")
        for number, text in enumerate(self.chunks if is_answer else [self.keywords]):
            if is_answer and number == self.fails_after:
                raise GeneratorFailed("the model is gone")
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=_USED))

    def prompt(self, call: int = -1) -> str:
        """What was said to it in one call, system and user together."""
        return "\n".join(str(message.text) for message in self.asked[call])


class ScriptedChat(FakeChat):
    """The n-th answer is the n-th of `answers`, the last one from then on.

    An answer to a prompt that holds `fails_on` fails after its first half. Where they `meet`,
    every answer waits until as many have begun as the barrier has parties.
    """

    answers: list[str] = Field(default_factory=lambda: ["x [1]."])
    fails_on: str = ""
    meet: asyncio.Barrier | None = None
    given: int = 0

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        if not asks_for_answer(messages):
            async for chunk in super()._astream(messages):
                yield chunk
            return
        answer = self.answers[min(self.given, len(self.answers) - 1)]
        self.given += 1
        if self.meet is not None:
            async with asyncio.timeout(10):
                await self.meet.wait()
        middle = len(answer) // 2
        said = "\n".join(str(message.text) for message in messages)
        self.chunks = [answer[:middle], answer[middle:]]
        self.fails_after = 1 if self.fails_on and self.fails_on in said else None
        async for chunk in super()._astream(messages):
            yield chunk


def services(
    retriever: FakeRetriever | None = None,
    evaluator: FakeEvaluator | None = None,
    web_search: FakeWebSearch | None = None,
    chat: BaseChatModel | None = None,
    critic: Critic | None = None,
) -> Services:
    evaluator = evaluator or FakeEvaluator()
    return Services(
        retriever=retriever or FakeRetriever(),
        evaluator=evaluator,
        critic=critic or EvaluatorCritic(evaluator),
        keyword_extractor=FakeKeywords(),
        web_search=web_search,
        chat=chat,
        chat_name="fake-chat" if chat else "extractive",
    )


def passage(text: str, number: int = 0, source: str = "docs/en/page.md") -> Passage:
    return Passage(
        id=f"p{number}", text=text, title=f"Page {number}", source=source, retrieval_score=0.1
    )
