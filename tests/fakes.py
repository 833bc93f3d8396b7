"""Stand-ins for the ports, small enough to be read: what the graphs are tested with."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphs.errors import EvaluatorFailed, RetrieverFailed, SearchFailed
from graphs.ports import Services
from graphs.types import Degraded, Passage, Scores, Task, Thresholds, WebPage

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
    thresholds: Thresholds = Thresholds(upper=0.5, lower=-0.5, strip_floor=-0.5)
    fails_from_call: int | None = None
    calls: list[list[tuple[str, str]]] = field(default_factory=list)
    name: str = "fake-evaluator"

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self.calls.append(list(pairs))
        if self.fails_from_call is not None and len(self.calls) >= self.fails_from_call:
            raise EvaluatorFailed("the worker is gone")
        return Scores(
            tuple(self.known[text] if text in self.known else overlap(q, text) for q, text in pairs)
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
    def keywords(self, question: str, most: int) -> Sequence[str]:
        return [word for word in question.strip("?？").split() if word[:1].isupper()][:most]


def services(
    retriever: FakeRetriever | None = None,
    evaluator: FakeEvaluator | None = None,
    web_search: FakeWebSearch | None = None,
) -> Services:
    return Services(
        retriever=retriever or FakeRetriever(),
        evaluator=evaluator or FakeEvaluator(),
        keyword_extractor=FakeKeywords(),
        web_search=web_search,
    )


def passage(text: str, number: int = 0, source: str = "docs/en/page.md") -> Passage:
    return Passage(id=f"p{number}", text=text, title=f"Page {number}", source=source, score=0.1)
