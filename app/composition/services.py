"""The composition root: settings in, live services out, everything closed again at the end.

What speaks to an OpenAI-compatible endpoint is imported where the settings choose one: the client
takes two seconds to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, get_args

import httpx
import numpy as np

from app.composition.chat import chat_at, chosen_chat, through_proxies
from app.composition.embedder import encoder_of, open_retriever
from app.errors import StartFailed
from app.ingest.image_reader import ImageReader
from app.observability.redaction import redact
from app.resilience.circuit_breaker import Attempt, CircuitBreaker
from app.resilience.deadline import NO_TIME, call_limit, is_outage
from app.retrieval.clip_index import ClipImages
from app.retrieval.embedder import Vectors
from app.retrieval.image_index import StoredImages
from app.retrieval.images import ImageStore
from app.retrieval.index import IndexMismatch
from app.retrieval.terms import LexicalReranker, RareWords, term_tables
from app.settings import Settings, model_address, search_engine
from app.websearch import engines
from app.websearch.page import PageReader
from app.websearch.search import FetchingWebSearch, SearchesAhead
from evaluator.client import (
    EvaluatorClient,
    EvaluatorError,
    WorkerError,
    WorkerRefused,
    WorkersDisagree,
)
from evaluator.schema import CompressMethod, PoolWeights, Ready
from evaluator.serving.app import create_app as create_worker
from evaluator.settings import read_settings
from graphs.critics.evaluator import EvaluatorCritic
from graphs.critics.llm import LlmCritic
from graphs.critics.llm_grader import LlmEvaluator, Mode
from graphs.critics.self_rag import NativeCritic
from graphs.errors import CompressorFailed, EvaluatorFailed, PortError
from graphs.grading.actions import PAPER_THRESHOLDS
from graphs.ports import Compressor, Critic, Evaluator, ImageIndex, Services
from graphs.types import Bars, Scores, Task, Thresholds

if TYPE_CHECKING:
    from app.llm.chat import EndpointChat
    from app.llm.endpoint import Endpoint
    from app.llm.image_endpoints import EndpointCaptioner, EndpointImageMaker
    from app.llm.provider_chat import ProviderChat
    from app.llm.self_rag_model import NativeGenerator

WORKER_TIMEOUT_S = 30.0
"""Longest wait for one answer of a worker."""
CONNECT_S = 3.0
"""Longest wait for a worker's machine to take a connection."""
JUDGING_RESERVE = 0.5
"""Of the run's reserve: the other half is for grading what is quoted where a model hangs."""
MODES: dict[str, Mode] = {
    "llm_direct": "direct",
    "llm_chain_of_thought": "chain_of_thought",
    "llm_few_shot": "few_shot",
}


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class _Model(Protocol):
    endpoint: Endpoint


C = TypeVar("C", bound=_Closable | None)


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Every part the settings choose, warm. Raises StartFailed with what to do about it."""
    redact.learn(settings)
    async with AsyncExitStack() as stack:
        try:
            services = await _open(settings, stack)
        except (EvaluatorError, WorkerError, IndexMismatch, PortError, OSError) as error:
            raise StartFailed(str(error)) from error
        yield services


_opening = asyncio.Lock()
_open_for_good = AsyncExitStack()
_shared: list[Services] = []


@asynccontextmanager
async def shared_services(settings: Settings) -> AsyncIterator[Services]:
    """Services opened once in this process and kept until it ends; the first settings count.

    For LangGraph's development server, which loads a file once for every graph it names and enters
    a graph's factory once per run. Raises StartFailed.
    """
    async with _opening:
        if not _shared:
            _shared.append(await _open_for_good.enter_async_context(open_services(settings)))
    yield _shared[0]


async def _open(settings: Settings, stack: AsyncExitStack) -> Services:
    async def opened(make: Callable[[Settings], C]) -> C:
        """What the settings choose, closed at the end; made in a thread, for imports take long."""
        part = await asyncio.to_thread(make, settings)
        if part is not None:
            stack.push_async_callback(part.aclose)
        return part

    native = await opened(_native)
    if native is not None:
        # At once, for a model without reflection tokens would fail in every answer.
        await native.check()
    with through_proxies():
        embedder = await opened(encoder_of)
    chat, fallback = await opened(_chat), await opened(_fallback)
    web_search = await opened(_web_search)
    search_ahead = await opened(lambda _: SearchesAhead(web_search) if web_search else None)
    token = settings.index_token.get_secret_value()
    retriever = await open_retriever(settings.data_dir, embedder, settings.index_url, token)
    client = await worker_client(settings, stack)
    tables = term_tables(retriever.segmenter)
    thresholds = PAPER_THRESHOLDS.get(settings.thresholds)
    # A worker within this process cannot be away.
    breaker = CircuitBreaker("evaluator") if settings.worker_url else None
    evaluator = await WorkerEvaluator.connect(client, thresholds, breaker)
    worker = await client.abilities()
    writer = chat if settings.generator == "chat" else None
    chat_name = writer.model_name if writer is not None else "extractive"
    image_reader = ImageReader(settings.data_dir / "cache")
    stack.push_async_callback(image_reader.aclose)
    store = ImageStore(settings.data_dir)
    stored_images = StoredImages(retriever, store, tables, image_reader.read_url)
    image_maker = await opened(partial(_image_maker, reader=image_reader))
    captioning = await opened(_captioning_chat)
    models: Sequence[_Model | None] = (chat, native, fallback, image_maker, captioning)
    breakers = [breaker, *(model.endpoint.breaker for model in models if model is not None)]
    of_web = (web_search.breaker, web_search.page_breakers) if web_search else ()
    return Services(
        retriever=retriever,
        evaluator=chosen_grader(settings, chat, evaluator),
        keyword_extractor=RareWords(tables),
        web_search=web_search,
        search_ahead=search_ahead,
        chat=writer,
        chat_name=native.name if native is not None else chat_name,
        critic=chosen_critic(settings, chat, native, evaluator),
        grader_stand_in=None if settings.grader == "evaluator" else evaluator,
        critic_stand_in=_critic_stand_in(settings, evaluator),
        reflective=native,
        fallback=fallback,
        fallback_name=getattr(fallback, "model_name", ""),
        lexical=LexicalReranker(retriever.index, tables),
        reranks="rerank" in worker.tasks,
        compressors=compressors_of(client, worker),
        embedder_name=retriever.embedder_name,
        answer_links=settings.answer_links,
        images=_image_index(settings, client, worker, stored_images),
        image_maker=image_maker,
        captioner=_captioner(captioning),
        circuits={
            **{each.name: each for each in (*breakers, *of_web) if each is not None},
            **(embedder.circuits if embedder is not None else {}),
        },
    )


async def worker_client(settings: Settings, stack: AsyncExitStack) -> EvaluatorClient:
    """The worker in this process, or those at `worker_url`: the same app behind HTTP."""
    # A machine that takes no connection is given up early: another may take it.
    timeout = httpx.Timeout(WORKER_TIMEOUT_S, connect=CONNECT_S)
    workers = []
    for url in settings.worker_url:
        try:
            workers.append(httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False))
        except httpx.InvalidURL as error:
            wrong = f"SELFCRAG_WORKER_URL: {redact(url)} is not an address ({error})."
            raise StartFailed(wrong) from error
    if not workers:
        worker = create_worker(read_settings(embedder=None))  # nobody asks it for vectors
        await stack.enter_async_context(worker.router.lifespan_context(worker))
        inside = httpx.ASGITransport(worker, raise_app_exceptions=False)
        workers = [httpx.AsyncClient(transport=inside, base_url="http://evaluator", timeout=None)]
    for http in workers:
        await stack.enter_async_context(http)
    client = EvaluatorClient(*workers)
    await client.connect()
    return client


def _chat(settings: Settings) -> EndpointChat | ProviderChat | None:
    return chosen_chat(settings) if asks_chat(settings) else None


def _fallback(settings: Settings) -> EndpointChat | ProviderChat | None:
    if not settings.fallback_model:
        return None
    return chat_at(settings, settings.fallback_model, settings.fallback_api_key, "fallback")


def _image_index(
    settings: Settings, client: EvaluatorClient, worker: Ready, stored: StoredImages
) -> ImageIndex:
    """Raises StartFailed where the worker has not what the settings choose."""
    if settings.image_index == "lexical":
        return stored
    if worker.image_embedder is None:
        raise StartFailed(
            "SELFCRAG_IMAGE_INDEX=worker needs a worker with an image embedder: name the folder of"
            " a CLIP model there by SELFCRAG_EVALUATOR_IMAGE_EMBEDDER."
        )
    return ClipImages(stored, WorkerImageEmbedder(client, worker.image_embedder))


class WorkerImageEmbedder:
    """The image embedder of a worker."""

    def __init__(self, client: EvaluatorClient, name: str) -> None:
        self._client, self.name = client, name

    async def embed(self, texts: Sequence[str], images: Sequence[str]) -> Vectors:
        """Of the texts, then of the images in base64. Raises EvaluatorFailed."""
        async with _worker_call(EvaluatorFailed):
            response = await self._client.embed_images(texts, images)
        return np.asarray([*response.texts, *response.images], dtype=np.float32)


@through_proxies()
def _image_maker(settings: Settings, reader: ImageReader) -> EndpointImageMaker | None:
    if settings.image_maker == "off":
        return None
    from app.llm.image_endpoints import EndpointImageMaker  # noqa: PLC0415

    _, model, url = model_address(settings.image_maker)
    key = settings.image_maker_key.get_secret_value()
    return EndpointImageMaker(url, key, model, reader.read_url)


def _captioning_chat(settings: Settings) -> EndpointChat | ProviderChat | None:
    if settings.captioner == "off":
        return None
    return chat_at(settings, settings.captioner, settings.captioner_key, "captioner")


def _captioner(chat: EndpointChat | ProviderChat | None) -> EndpointCaptioner | None:
    if chat is None:
        return None
    from app.llm.image_endpoints import EndpointCaptioner  # noqa: PLC0415

    return EndpointCaptioner(chat)


@through_proxies()
def _native(settings: Settings) -> NativeGenerator | None:
    if settings.generator != "native":
        return None
    from app.llm.self_rag_model import NativeGenerator  # noqa: PLC0415

    _, model, url = model_address(settings.native_model)
    return NativeGenerator(
        url,
        settings.native_api_key.get_secret_value(),
        model,
        max_tokens=settings.max_output_tokens,
        has_fallback=bool(settings.fallback_model),
    )


def _web_search(settings: Settings) -> FetchingWebSearch | None:
    if (engine := _engine(settings)) is None:
        return None
    reader = PageReader(allowed_private_hosts=settings.fetch_allowed_hosts)
    return FetchingWebSearch(engine, reader, settings.preferred_domains)


@through_proxies()
def _engine(settings: Settings) -> engines.SearchEngine | None:
    name, where = search_engine(settings.search)
    match name:
        case "tavily":
            key = settings.tavily_api_key.get_secret_value()
            return engines.TavilySearch(key, base_url=where or engines.TAVILY_URL)
        case "wikipedia":
            return engines.WikipediaSearch(where or engines.WIKIPEDIA_URL)
        case "searxng":
            return engines.SearxngSearch(where)
        case "fixture":
            return engines.FixtureSearch(Path(where))
        case _:
            return None


class WorkerEvaluator:
    """Scores through a worker, in-process or over HTTP; made by `connect`."""

    def __init__(
        self,
        client: EvaluatorClient,
        name: str,
        thresholds: Thresholds,
        bars: Bars | None = None,
        breaker: CircuitBreaker | None = None,
        pool: PoolWeights | None = None,
    ) -> None:
        self._client, self._breaker, self._pool = client, breaker, pool
        self.name, self.thresholds, self.bars = name, thresholds, bars or Bars()

    @classmethod
    async def connect(
        cls,
        client: EvaluatorClient,
        preset: Thresholds | None,
        breaker: CircuitBreaker | None = None,
    ) -> WorkerEvaluator:
        """Asks the worker for its name and, without a preset, its thresholds. Raises WorkerError.

        Presets are for the authors' checkpoint, which only regresses: raises StartFailed where one
        is given for an evaluator that tells probabilities.
        """
        warm_up = await client.score("relevance", [("Is it warm?", "It is warm now.")])
        bars, pool = Bars(), None
        if preset is None:
            stored = await client.thresholds()
            preset, pool = stored.thresholds, stored.pool
            bars = Bars(stored.support, stored.utility, stored.retrieval)
        elif any(warm_up.probabilities):
            raise StartFailed(
                "The thresholds of SELFCRAG_THRESHOLDS were made for the CRAG authors' evaluator, "
                f"not for {warm_up.model}: choose calibrated."
            )
        return cls(client, warm_up.model, preset, bars, breaker, pool)

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        async with _worker_call(EvaluatorFailed, self._breaker) as attempt:
            response = await attempt.through(self._client.score(task, pairs))
        pool = self._pool if task == "relevance" else None
        return Scores(tuple(response.scores), similarities=tuple(response.similarities), pool=pool)

    async def ready(self) -> bool:
        return await self._client.ready()


@asynccontextmanager
async def _worker_call(
    error: type[PortError], breaker: CircuitBreaker | None = None
) -> AsyncIterator[Attempt]:
    """Bounded by the run's deadline. Raises `error` for what a worker does wrong."""

    def failed(what: str) -> PortError:
        return error(f"The evaluator's worker {what}.")

    limit = call_limit(reserve=JUDGING_RESERVE)
    if limit.is_over:
        raise failed(NO_TIME)
    began = asyncio.get_running_loop().time()
    with breaker.attempt(failed) if breaker else nullcontext(Attempt()) as attempt:
        try:
            async with asyncio.timeout_at(limit.at):
                yield attempt
        except WorkerError as problem:
            attempt.has_failed = not isinstance(problem, WorkerRefused | WorkersDisagree)
            raise error(str(problem)) from problem
        except TimeoutError:
            attempt.has_failed = is_outage(limit, asyncio.get_running_loop().time() - began)
            raise failed(f"did not answer within {limit}") from None


class WorkerCompressor:
    """One method of a worker's `POST /compress`."""

    def __init__(self, client: EvaluatorClient, method: CompressMethod) -> None:
        self._client, self._method = client, method

    async def compress(self, question: str, texts: Sequence[str], ratio: float) -> Sequence[str]:
        async with _worker_call(CompressorFailed):
            return (await self._client.compress(self._method, question, texts, ratio)).texts


def compressors_of(client: EvaluatorClient, worker: Ready) -> Mapping[str, Compressor]:
    """By the name they have among the options; none where the worker has no language model."""
    if worker.compressor is None:
        return {}
    return {method: WorkerCompressor(client, method) for method in get_args(CompressMethod)}


class GradedApart:
    """Relevance and thresholds by the grader, all other tasks by the evaluator."""

    def __init__(self, grader: Evaluator, evaluator: Evaluator) -> None:
        self._grader, self._evaluator = grader, evaluator
        self.name, self.thresholds = grader.name, grader.thresholds

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        judge = self._grader if task == "relevance" else self._evaluator
        return await judge.score(task, pairs)

    async def ready(self) -> bool:
        return await self._grader.ready() and await self._evaluator.ready()


def asks_chat(settings: Settings) -> bool:
    return settings.generator == "chat" or settings.critic == "llm" or settings.grader in MODES


def chosen_grader(
    settings: Settings, chat: EndpointChat | ProviderChat | None, evaluator: Evaluator
) -> Evaluator:
    if chat is None or settings.grader not in MODES:
        return evaluator
    by_chat = LlmEvaluator(chat, chat.model_name, MODES[settings.grader])
    return GradedApart(by_chat, evaluator)


def _critic_stand_in(settings: Settings, evaluator: WorkerEvaluator) -> Critic | None:
    return None if settings.critic == "evaluator" else EvaluatorCritic(evaluator, evaluator.bars)


def chosen_critic(
    settings: Settings,
    chat: EndpointChat | ProviderChat | None,
    native: NativeGenerator | None,
    evaluator: WorkerEvaluator,
) -> Critic:
    """The evaluator's own relevance where it is the critic: a call a sentence would be too many."""
    if settings.critic == "llm" and chat is not None:
        return LlmCritic(chat, chat.model_name)
    if settings.critic == "native" and native is not None:
        return NativeCritic(native)
    return EvaluatorCritic(evaluator, evaluator.bars)
