"""`selfcrag check`: whether the state is whole, and whether what the settings choose answers."""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import typer
from sqlalchemy.exc import SQLAlchemyError

from app.cli.serve import settings_told
from app.cli.terminal import ends_at_failure, errors
from app.composition.chat import chosen_chat
from app.composition.embedder import chosen_embedder
from app.composition.services import WorkerEvaluator, asks_chat, worker_client
from app.errors import ServiceError
from app.extensions.backup.backup import INDEX, problems
from app.observability.redaction import redact
from app.retrieval.index import IndexMismatch, open_index
from app.retrieval.tokenizer import Segmenter
from app.settings import Settings
from app.storage.api_keys import list_keys
from app.storage.database import database_url, open_engine
from evaluator.client import EvaluatorError
from graphs.errors import PortError
from graphs.grading.actions import PAPER_THRESHOLDS

EMPTY = "no documents: read some in by `selfcrag ingest PATH`"
Part = Callable[[Settings], Awaitable[str]]
FAULTS = (ServiceError, IndexMismatch, PortError, EvaluatorError, SQLAlchemyError, OSError)


def check_state() -> None:
    """Faults of the state alone, or else a line for each part and the faults of the parts."""
    logging.basicConfig(level=logging.ERROR)
    with ends_at_failure(OSError):
        settings = settings_told()
        redact.learn(settings)
        faults = asyncio.run(problems(settings)) or asyncio.run(_faults_of_parts(settings))
    for fault in faults:
        line = f"selfcrag: {redact(fault)}"
        errors.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if faults:
        raise typer.Exit(1)
    typer.echo(f"{settings.data_dir}: nothing is wrong")


async def _faults_of_parts(settings: Settings) -> list[str]:
    """What the parts that do not answer say, once every part was told."""
    faults = []
    for name, part in PARTS.items():
        try:
            line = await part(settings)
        except FAULTS as error:
            faults.append(str(error))
            line = "does not work, see below"
        typer.echo(f"{name:<12} {redact(line)}")
    return faults


async def _data_folder(settings: Settings) -> str:
    free = (await asyncio.to_thread(shutil.disk_usage, settings.data_dir)).free
    return f"{settings.data_dir}: can be written, {free / 1e9:.1f} GB free"


async def _index(settings: Settings) -> str:
    folder, token = settings.data_dir / INDEX, settings.index_token.get_secret_value()
    if not settings.index_url and not folder.exists():
        return EMPTY
    segmenter = Segmenter(settings.data_dir / "cache")
    async with aclosing(await asyncio.to_thread(chosen_embedder, settings, segmenter)) as embedder:
        index = await open_index(folder, embedder, settings.index_url, token)
        await index.probe()
        size = await index.size()
        many = "{} documents in {} chunks".format(*size) if size else "in Milvus"
        if size == (0, 0):
            many = EMPTY
        return f"{many}, embedder {embedder.name}"


async def _evaluator(settings: Settings) -> str:
    where = f"worker {', '.join(settings.worker_url)}" if settings.worker_url else "in the service"
    async with AsyncExitStack() as stack:
        client = await worker_client(settings, stack)
        preset = PAPER_THRESHOLDS.get(settings.thresholds)
        evaluator = await WorkerEvaluator.connect(client, preset)
        upper, lower = evaluator.thresholds.upper, evaluator.thresholds.lower
        return f"{where}, {evaluator.name}, answers; thresholds {upper:.3f} and {lower:.3f}"


async def _chat_model(settings: Settings) -> str:
    """A chat model is asked for a word, for nothing else tells whether it can be used."""
    if settings.generator == "native":
        return f"Self-RAG model {settings.native_model}, which is asked at the start alone"
    if not asks_chat(settings):
        return "none: answers are quotations (SELFCRAG_GENERATOR=extractive)"
    async with aclosing(await asyncio.to_thread(chosen_chat, settings)) as chat:
        await chat.ainvoke("Reply with the word: yes")
        return f"{chat.model_name}, answers"


async def _web_search(settings: Settings) -> str:
    return "off" if settings.search == "off" else f"{settings.search}, which was not asked"


async def _keys(settings: Settings) -> str:
    url = database_url(settings)
    is_file = url.get_backend_name() == "sqlite"
    if is_file and not await asyncio.to_thread(Path(str(url.database)).exists):
        return "none yet: the service answers this machine alone"
    async with open_engine(settings) as engine:
        keys = await list_keys(engine)
    if keys:
        return f"asked of every request: {sum(key.revoked_at is None for key in keys)} valid"
    whom = "everyone" if settings.allow_anonymous else "this machine alone"
    return f"none: the service answers {whom}"


PARTS: dict[str, Part] = {
    "data folder": _data_folder,
    "index": _index,
    "evaluator": _evaluator,
    "chat model": _chat_model,
    "web search": _web_search,
    "keys": _keys,
}
