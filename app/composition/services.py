"""The composition root: settings in, live services out, everything closed again at the end.

What speaks to an OpenAI-compatible endpoint is imported where the settings choose one: the client
takes two seconds to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import httpx
from pydantic import ValidationError

from app.composition.compressing import compressors_of
from app.composition.embedder import endpoint_embedder
from app.composition.grading import WorkerEvaluator
from app.composition.models import asks_chat, chosen_critic, chosen_grader
from app.composition.proxies import through_proxies
from app.errors import StartFailed, message_of
from app.retrieval.index import IndexMismatch
from app.retrieval.rerank import lexical_reranker
from app.retrieval.retriever import HybridRetriever
from app.settings import Settings, StateSettings
from app.websearch.engine import SearchEngine
from app.websearch.page import PageReader
from app.websearch.query_keywords import QuestionKeywords
from app.websearch.recorded import FixtureSearch
from app.websearch.search import FetchingWebSearch
from app.websearch.searxng import SearxngSearch
from app.websearch.speculative import SearchesAhead
from app.websearch.tavily import TavilySearch
from app.websearch.wikipedia import WikipediaSearch
from evaluator.client import EvaluatorClient, EvaluatorError, WorkerError
from evaluator.serving.app import create_app as create_worker
from graphs.errors import PortError
from graphs.grading.actions import PRESETS
from graphs.ports import Services, WebSearch

if TYPE_CHECKING:
    from app.llm.chat import EndpointChat
    from app.llm.self_rag_model import NativeGenerator
    from app.retrieval.embedders.openai import EndpointEmbedder

S = TypeVar("S", bound=StateSettings)

CONNECT_S = 3.0
"""Longest wait for a worker's machine to take a connection."""


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Every part the settings choose, warm. Raises StartFailed with what to do about it."""
    async with AsyncExitStack() as stack:
        try:
            services = await _open(settings, stack)
        except (EvaluatorError, WorkerError, IndexMismatch, PortError, OSError) as error:
            raise StartFailed(str(error)) from error
        yield services


async def _open(settings: Settings, stack: AsyncExitStack) -> Services:
    native = await asyncio.to_thread(_native, settings)
    if native is not None:
        stack.push_async_callback(native.aclose)
        # At once, for a model without reflection tokens would fail in every answer.
        await native.check()
    retriever = await HybridRetriever.open(
        settings.data_dir,
        await _embedder(settings, stack),
        settings.index_url,
        settings.index_token.get_secret_value(),
    )
    keywords = QuestionKeywords(retriever.segmenter)
    await asyncio.to_thread(keywords.load)
    chat = await asyncio.to_thread(_chat, settings)
    if chat is not None:
        stack.push_async_callback(chat.aclose)
    client = await _worker_client(settings, stack)
    evaluator = await WorkerEvaluator.connect(
        client, PRESETS.get(settings.thresholds), allow_foreign=settings.allow_foreign_thresholds
    )
    worker = await client.abilities()
    writer = chat if settings.generator == "openai" else None
    web_search = await _web_search(settings, stack)
    return Services(
        retriever=retriever,
        evaluator=chosen_grader(settings, chat, evaluator),
        keyword_extractor=keywords,
        web_search=web_search,
        search_ahead=_search_ahead(settings, web_search, stack),
        chat=writer,
        chat_name=_name_of(writer, native),
        critic=chosen_critic(settings, chat, native, evaluator),
        reflective=native,
        lexical=await asyncio.to_thread(lexical_reranker, retriever),
        reranks="rerank" in worker.tasks,
        compressors=compressors_of(client, worker),
        embedder_name=retriever.embedder_name,
    )


async def _embedder(settings: Settings, stack: AsyncExitStack) -> EndpointEmbedder | None:
    with through_proxies():
        embedder = await asyncio.to_thread(endpoint_embedder, settings)
    if embedder is not None:
        stack.callback(embedder.close)
    return embedder


async def _worker_client(settings: Settings, stack: AsyncExitStack) -> EvaluatorClient:
    """The worker in this process, or those at `worker_url`: the same app behind HTTP."""
    if settings.worker_url:
        workers = [_worker_at(url, settings.worker_timeout_s) for url in settings.worker_url]
    else:
        worker = create_worker()
        await stack.enter_async_context(worker.router.lifespan_context(worker))
        transport = httpx.ASGITransport(worker, raise_app_exceptions=False)
        workers = [
            httpx.AsyncClient(transport=transport, base_url="http://evaluator", timeout=None)
        ]
    for http in workers:
        await stack.enter_async_context(http)
    client = EvaluatorClient(*workers)
    await client.connect()
    return client


def _worker_at(url: str, timeout_s: float) -> httpx.AsyncClient:
    """Gives up early on a machine that takes no connection: another may take it."""
    timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))
    try:
        return httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False)
    except httpx.InvalidURL as error:
        raise StartFailed(f"SELFCRAG_WORKER_URL: {url} is no address ({error}).") from error


def _name_of(chat: EndpointChat | None, native: NativeGenerator | None) -> str:
    if native is not None:
        return native.name
    return chat.model_name if chat is not None else "extractive"


@through_proxies()
def _chat(settings: Settings) -> EndpointChat | None:
    """The chat endpoint, where any part asks it."""
    if not asks_chat(settings):
        return None
    from app.llm.chat import chat_model  # noqa: PLC0415

    return chat_model(
        settings.openai_base_url,
        settings.openai_api_key.get_secret_value(),
        settings.openai_model,
        temperature=settings.openai_temperature,
        timeout_s=settings.openai_timeout_s,
        max_concurrent=settings.openai_max_concurrent,
    )


@through_proxies()
def _native(settings: Settings) -> NativeGenerator | None:
    if settings.generator != "native":
        return None
    from app.llm.self_rag_model import native_generator  # noqa: PLC0415

    return native_generator(
        settings.native_base_url,
        settings.native_api_key.get_secret_value(),
        settings.native_model,
        timeout_s=settings.native_timeout_s,
        max_concurrent=settings.native_max_concurrent,
        max_output_tokens=settings.native_max_output_tokens,
    )


async def _web_search(settings: Settings, stack: AsyncExitStack) -> FetchingWebSearch | None:
    engine = await asyncio.to_thread(_engine, settings)
    if engine is None:
        return None
    reader = PageReader(
        allowed_private_hosts=settings.fetch_allowed_hosts,
        timeout_s=settings.fetch_timeout_s,
        max_bytes=settings.fetch_max_bytes,
    )
    search = FetchingWebSearch(engine, reader, settings.preferred_domains)
    stack.push_async_callback(search.aclose)
    return search


def _search_ahead(
    settings: Settings, web_search: WebSearch | None, stack: AsyncExitStack
) -> SearchesAhead | None:
    if web_search is None:
        return None
    ahead = SearchesAhead(web_search, settings.max_speculative_searches)
    stack.push_async_callback(ahead.aclose)
    return ahead


@through_proxies()
def _engine(settings: Settings) -> SearchEngine | None:
    timeout_s = settings.search_timeout_s
    match settings.search:
        case "tavily":
            key = settings.tavily_api_key.get_secret_value()
            return TavilySearch(key, base_url=settings.tavily_base_url, timeout_s=timeout_s)
        case "wikipedia":
            return WikipediaSearch(api_url=settings.wikipedia_api_url, timeout_s=timeout_s)
        case "searxng":
            return SearxngSearch(settings.searxng_url, timeout_s=timeout_s)
        case "fixture" if settings.search_fixture is not None:
            return FixtureSearch(settings.search_fixture)
        case _:
            return None


def load_settings() -> Settings:
    """The settings of the service. Raises StartFailed naming what is wrong, never a value."""
    return load_settings_of(Settings)


def load_settings_of(kind: type[S]) -> S:
    """The settings of the environment that `kind` reads. Raises StartFailed, as above."""
    try:
        return kind()
    except ValidationError as error:
        wrong = [
            ": ".join([*(f"SELFCRAG_{part}".upper() for part in item["loc"][:1]), message_of(item)])
            for item in error.errors(include_url=False, include_input=False)
        ]
        raise StartFailed("; ".join(wrong)) from None
    except UnicodeDecodeError:
        raise StartFailed(".env is not UTF-8: save it as UTF-8") from None
