"""Ports: protocols of the external services that a run uses."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from langchain_core.language_models import BaseChatModel

from evaluator.schema import ANSWER_MARK
from graphs import types
from graphs.options import Context, Scope, Search


class Retriever(Protocol):
    """The knowledge base."""

    async def retrieve(
        self, query: str, k: int, search: Search | None = None
    ) -> Sequence[types.Passage]:
        """At most `k` passages, best first, scored by the retriever. Raises RetrieverFailed."""
        ...

    async def ready(self) -> bool:
        """Whether it can be asked now."""
        ...


class Reranker(Protocol):
    """Another order of what was retrieved."""

    async def rerank(
        self, question: str, passages: Sequence[types.Passage], scope: Scope
    ) -> Sequence[float]:
        """One score a passage, in order, higher is better. Raises RetrieverFailed."""
        ...


class Compressor(Protocol):
    """Shorter texts by a local language model."""

    async def compress(self, question: str, texts: Sequence[str], ratio: float) -> Sequence[str]:
        """One text for each, of about `ratio` of its tokens. Raises CompressorFailed."""
        ...


def with_answer(question: str, answer: str) -> str:
    """The first text of a pair of the task support; the first mark in it is ours."""
    return f"{question.replace(ANSWER_MARK.strip(), ' ')}{ANSWER_MARK}{answer}"


class Evaluator(Protocol):
    """The T5 evaluator behind the worker."""

    @property
    def name(self) -> str: ...

    @property
    def thresholds(self) -> types.Thresholds:
        """Those calibrated for this evaluator."""
        ...

    async def score(self, task: types.Task, pairs: Sequence[tuple[str, str]]) -> types.Scores:
        """One score a pair; relevance pairs are (question, passage). Raises EvaluatorFailed."""
        ...

    async def ready(self) -> bool:
        """Whether it can be asked now."""
        ...


class ImageIndex(Protocol):
    """The images of the knowledge base, known by the ids of the chunks their captions make."""

    @property
    def thresholds(self) -> types.ImageThresholds:
        """Those calibrated for how this index compares."""
        ...

    async def search(
        self, query: str, k: int, search: Search | None = None
    ) -> Sequence[types.Passage]:
        """Captions nearest to a text, best first; `relevance` is the similarity.

        Raises RetrieverFailed.
        """
        ...

    async def match(self, image: str, k: int, scope: Scope) -> Sequence[types.Passage]:
        """Captions of the images nearest to one, a data URL; `relevance` is the similarity.

        Raises InvalidImage, RetrieverFailed.
        """
        ...

    async def plain(self, image: str) -> str:
        """An image as a data URL of its pixels alone. Raises InvalidImage."""
        ...

    async def images_of(
        self, passages: Sequence[types.Passage], scope: Scope
    ) -> Sequence[types.Image]:
        """The images that these passages stand for, then those that stand by them.

        Raises RetrieverFailed.
        """
        ...


class ImageMaker(Protocol):
    """An image generation model."""

    @property
    def name(self) -> str: ...

    async def make(self, prompt: str) -> types.Image:
        """A new image as a data URL. Raises GeneratorFailed."""
        ...


class Captioner(Protocol):
    """A model that sees images."""

    @property
    def name(self) -> str: ...

    async def describe(
        self, image: str, question: str, language: types.Language
    ) -> tuple[str, types.Usage]:
        """What an image, a data URL, shows. Raises GeneratorFailed."""
        ...


class WebSearch(Protocol):
    """A search engine together with the fetching of its result pages."""

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[types.WebPage], Sequence[types.Degraded]]:
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

    async def take(
        self, ticket: str
    ) -> tuple[Sequence[types.WebPage], Sequence[types.Degraded]] | None:
        """What a kept search found, once, as `WebSearch.search` tells it; None where it is gone.

        Raises SearchFailed. Whoever stops waiting ends the search.
        """
        ...


class Critic(Protocol):
    """Judges by Self-RAG's reflection tokens, whoever writes or reads them."""

    @property
    def name(self) -> str: ...

    @property
    def bars(self) -> types.Bars:
        """From where on a draft is accepted, on this critic's scale."""
        ...

    async def needs_retrieval(self, question: str) -> tuple[float, types.Usage]:
        """p(Retrieval) / (p(Retrieval) + p(No Retrieval)). Raises CriticFailed."""
        ...

    async def judge(
        self, question: str, drafts: Sequence[types.Draft]
    ) -> tuple[Sequence[types.Judgement], types.Usage]:
        """One judgement a draft, in order. Raises CriticFailed."""
        ...

    async def criticise(
        self, question: str, draft: types.Draft, judgement: types.Judgement, /
    ) -> tuple[str, types.Usage]:
        """What is wrong with the draft or missing from it, in the question's language.

        Raises CriticFailed.
        """
        ...


class ReflectiveGenerator(Protocol):
    """A model trained to write reflection tokens with its answers (Self-RAG 3.2)."""

    @property
    def name(self) -> str: ...

    async def write(
        self, question: str, passage: types.Strip | None = None, preceding: str | None = None
    ) -> "Reflected":
        """An answer from the passage, judged as written; after `preceding` its next segment alone.

        Raises GeneratorFailed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Reflected:
    """What one call of a reflective generator brings: `text` holds no reflection tokens.

    `retrieval` is p(Retrieval) normalised where the model was free to ask for it, else None;
    `continues` says that it would go on with the evidence at hand. `finish_reason` is the
    endpoint's word on why the reply ended.
    """

    text: str
    judgement: types.Judgement
    usage: types.Usage
    retrieval: float | None = None
    continues: bool = False
    finish_reason: str = ""


class KeywordExtractor(Protocol):
    """Rewriting without a language model."""

    async def keywords(self, question: str, most: int) -> Sequence[str]:
        """At most `most` named spans and rare terms of the question, in its order."""
        ...


class Circuit(Protocol):
    """The circuit breaker of a dependency."""

    def openness(self) -> float:
        """0 closed, 1 open, 0.5 half-open."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Services:
    """Everything a graph may call; built once by the application, shared by all runs.

    `chat` None: answers are extracted from the strips. `fallback` writes where `chat` or
    `reflective` fails; it judges nothing. `web_search` None: the web is off.
    `search_ahead` None: no search begins before the action is known. `reflective` takes the place
    of `chat` for drafts. `lexical` reranks by term weights kept since ingest; `reranks` says
    whether the evaluator has a reranking model besides. `compressors` are those that need a local
    model, by their name among the options. `answer_links`: answers link to the sources they were
    given alone, or to all addresses. `circuits` are the breakers by dependency. `images` None: no
    images are kept; without `image_maker` and `captioner` what is stored is all there is. Where a
    language model grades or judges, `grader_stand_in` and `critic_stand_in` do where it fails.
    """

    retriever: Retriever
    evaluator: Evaluator
    critic: Critic
    keyword_extractor: KeywordExtractor
    web_search: WebSearch | None = None
    search_ahead: SearchAhead | None = None
    chat: BaseChatModel | None = None
    chat_name: str = "extractive"
    reflective: ReflectiveGenerator | None = None
    fallback: BaseChatModel | None = None
    fallback_name: str = ""
    lexical: Reranker | None = None
    reranks: bool = False
    compressors: Mapping[str, Compressor] = field(default_factory=dict)
    embedder_name: str = ""
    answer_links: types.AnswerLinks = "cited"
    circuits: Mapping[str, Circuit] = field(default_factory=dict)
    images: ImageIndex | None = None
    image_maker: ImageMaker | None = None
    captioner: Captioner | None = None
    grader_stand_in: Evaluator | None = None
    critic_stand_in: Critic | None = None

    def judging(self, plan: types.Plan) -> "Services":
        """With the evaluator in place of the language models that have failed to judge."""
        services = self
        if plan.grader_failed and self.grader_stand_in is not None:
            services = replace(services, evaluator=self.grader_stand_in, grader_stand_in=None)
        if plan.critic_failed and self.critic_stand_in is not None:
            services = replace(services, critic=self.critic_stand_in, critic_stand_in=None)
        return services

    def within_budget(self, usage: types.Usage, context: Context) -> "Services":
        """As they are; without the models that write where the run's budget is spent."""
        if self.writes_by_model and context.is_spent(usage):
            return replace(self, chat=None, reflective=None, fallback=None)
        return self

    @property
    def fallen_back(self) -> "Services | None":
        """With the fallback model in place of the first one; None where there is none (more)."""
        if self.fallback is None:
            return None
        name = self.fallback_name
        return replace(self, chat=self.fallback, chat_name=name, reflective=None, fallback=None)

    @property
    def writes_by_model(self) -> bool:
        """Whether drafts cost calls of a language model."""
        return self.chat is not None or self.reflective is not None
