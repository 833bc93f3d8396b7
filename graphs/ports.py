"""The seams between the graphs and the world: what a run needs, said as protocols."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from langchain_core.language_models import BaseChatModel

from graphs.types import Degraded, Passage, Scores, Task, Thresholds, WebPage


class Retriever(Protocol):
    """The knowledge base."""

    async def retrieve(self, query: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first, scored by the retriever. Raises RetrieverFailed."""
        ...

    async def ready(self) -> bool:
        """Whether it can be asked now."""
        ...


class Evaluator(Protocol):
    """The T5 evaluator behind the worker."""

    @property
    def name(self) -> str: ...

    @property
    def thresholds(self) -> Thresholds:
        """Those calibrated for this evaluator."""
        ...

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        """One score a pair; relevance pairs are (question, passage). Raises EvaluatorFailed."""
        ...

    async def ready(self) -> bool:
        """Whether it can be asked now."""
        ...


class WebSearch(Protocol):
    """A search engine together with the fetching of its result pages."""

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        """At most `max_pages` pages, preferred domains first, and what went wrong on the way.

        Pages that could not be fetched come with the result's own text and one `fetch` entry for
        them all. Raises SearchFailed when the engine itself gives no answer.
        """
        ...


class SearchAhead(Protocol):
    """Web searches that begin before it is known whether they are needed (speculation)."""

    def begin(self, query: str, max_pages: int) -> AbstractContextManager[str | None]:
        """Begins a search and tells its ticket, or None where too many are under way.

        The search ends with the block, unless it was kept.
        """
        ...

    def keep(self, ticket: str) -> None:
        """Lets the search go on after its block, for `take` to follow at once."""
        ...

    async def take(self, ticket: str) -> tuple[Sequence[WebPage], Sequence[Degraded]] | None:
        """What a kept search found, once, as `WebSearch.search` tells it; None where it is gone.

        Raises SearchFailed. Whoever stops waiting ends the search.
        """
        ...


class KeywordExtractor(Protocol):
    """Rewriting without a language model."""

    async def keywords(self, question: str, most: int) -> Sequence[str]:
        """At most `most` named spans and rare terms of the question, in its order."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a graph may call; built once by the application, shared by all runs.

    `chat` None: answers are extracted from the strips. `web_search` None: the web is off.
    `search_ahead` None: no search begins before the action is known.
    """

    retriever: Retriever
    evaluator: Evaluator
    keyword_extractor: KeywordExtractor
    web_search: WebSearch | None = None
    search_ahead: SearchAhead | None = None
    chat: BaseChatModel | None = None
    chat_name: str = "extractive"
    embedder_name: str = ""
