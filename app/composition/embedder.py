"""The embedder that the settings choose, and the knowledge base it searches."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import httpx

from app.observability.redaction import redact
from app.retrieval.embedder import (
    E5_WEIGHTS,
    ENCODER_WEIGHTS,
    Embedder,
    EmbedderFailed,
    StaticEmbedder,
)
from app.retrieval.index import embedder_of, make_folder, open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from app.settings import StateSettings, model_address
from evaluator.client import EvaluatorError

if TYPE_CHECKING:
    from app.retrieval.e5_embedder import E5Embedder
    from app.retrieval.endpoint_embedder import EndpointEmbedder

PROBE_S = 5.0


async def open_retriever(
    data_dir: Path, embedder: Embedder | None = None, url: str = "", token: str = ""
) -> HybridRetriever:
    """The knowledge base in `data_dir`, or in the Milvus at `url`, warm.

    The shipped table embeds unless an `embedder` is given. Raises IndexMismatch where another
    embedder wrote the index, IndexUnusable where it is damaged or the folder cannot be.
    """
    await asyncio.to_thread(make_folder, data_dir)
    segmenter = Segmenter(data_dir / "cache")
    # Nobody waits for the dictionary before the first question in Chinese.
    Thread(target=segmenter.load, daemon=True).start()
    if embedder is None:
        embedder = StaticEmbedder(segmenter)
        await asyncio.to_thread(embedder.load)
    return HybridRetriever(await open_index(data_dir / "index", embedder, url, token), segmenter)


def chosen_embedder(settings: StateSettings, segmenter: Segmenter) -> Embedder:
    """The static table, unread as yet, or what `encoder_of` makes; it raises as that does."""
    return encoder_of(settings) or StaticEmbedder(segmenter)


def encoder_of(settings: StateSettings) -> EndpointEmbedder | E5Embedder | None:
    """None where it is the static table; close it.

    Blocks: e5 is loaded, or the endpoint is asked for its dimensions and, where it is a worker,
    for its model. Raises EmbedderFailed, IndexUnusable.
    """
    if settings.embedder == "auto":
        settings = _by_index(settings)
    if settings.embedder == "static":
        return None
    if settings.embedder == "e5" and not settings.worker_url:
        return _e5(settings)
    # Its client takes two seconds to load.
    from app.retrieval.endpoint_embedder import EndpointEmbedder  # noqa: PLC0415

    if is_worker := settings.embedder in ("worker", "e5"):
        urls = [f"{url.rstrip('/')}/v1" for url in settings.worker_url]
        try:
            model = _worker_model(urls)
        except EmbedderFailed:
            if settings.embedder == "worker":
                raise
            return _e5(settings)  # the same vectors, by this process
    else:
        _, model, url = model_address(settings.embedder)
        urls = [url]
    return EndpointEmbedder(
        urls,
        model,
        settings.embedder_key.get_secret_value(),
        name=_name(settings, model),
        dimensions=settings.embedder_dimensions,
        prefixes=(settings.embedder_query_prefix, settings.embedder_passage_prefix),
        tells_input_type=is_worker,
        weights=E5_WEIGHTS if settings.embedder == "e5" else ENCODER_WEIGHTS,
    )


def _by_index(settings: StateSettings) -> StateSettings:
    """With what wrote the index at hand, for a new one e5: in this process, for it is here.

    Raises EmbedderFailed where an endpoint wrote it that no setting names, IndexUnusable.
    """
    folder, token = settings.data_dir / "index", settings.index_token.get_secret_value()
    written = embedder_of(folder, settings.index_url, token)
    if written and not written.startswith(("static-", "e5:")):
        raise EmbedderFailed(
            f"The knowledge base was embedded by {written}: name that embedder in"
            " SELFCRAG_EMBEDDER, or set it to e5 and run `selfcrag ingest --reindex`."
        )
    kind = "static" if written.startswith("static-") else "e5"
    return settings.model_copy(update={"embedder": kind, "worker_url": ()})


def _e5(settings: StateSettings) -> E5Embedder:
    from app.retrieval.e5_embedder import E5Embedder  # noqa: PLC0415
    from evaluator.inference.scorer import e5_embedder  # noqa: PLC0415

    try:
        encoder = e5_embedder()
    except EvaluatorError as error:
        raise EmbedderFailed(str(error)) from error
    return E5Embedder(encoder, _name(settings, encoder.name))


def _name(settings: StateSettings, model: str) -> str:
    """All that decides a passage's vector; an index serves no other."""
    name = f"{settings.embedder.partition(':')[0]}:{model}"
    if settings.embedder_dimensions:
        name += f"/{settings.embedder_dimensions}"
    if prefix := settings.embedder_passage_prefix:
        name += f"+{hashlib.sha256(prefix.encode()).hexdigest()[:8]}"
    return name


def _worker_model(urls: Sequence[str]) -> str:
    for url in urls:
        try:
            answer = httpx.get(f"{url}/models", timeout=PROBE_S, trust_env=False)
            models = answer.raise_for_status().json()["data"]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
            continue
        if not models:
            raise EmbedderFailed(
                f"The worker at {redact(url).removesuffix('/v1')} has no embedder: name its folder"
                " there by SELFCRAG_EVALUATOR_EMBEDDER."
            )
        return str(models[0]["id"])
    raise EmbedderFailed(
        f"No worker answered at {', '.join(map(redact, urls))} to say which embedder it has."
        " Is it running?"
    )
