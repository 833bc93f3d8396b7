"""`selfcrag ingest`: fills the knowledge base and tells what became of every file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import langsmith
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.terminal import ends_at_failure
from app.composition.chat import chosen_chat
from app.composition.embedder import chosen_embedder
from app.errors import StartFailed
from app.ingest import pipeline
from app.ingest.chunker import Chunking
from app.ingest.files import Report, is_url, shown
from app.ingest.pipeline import Questioner
from app.ingest.ray import ClusterFailed
from app.ingest.web_pages import downloaded, page_reader
from app.observability.redaction import redact
from app.retrieval.embedder import EmbedderFailed
from app.retrieval.index import IndexMismatch, IngestBusy, open_index
from app.retrieval.tokenizer import Segmenter
from app.settings import Settings, StateSettings, load_settings
from graphs.options import DEFAULT_COLLECTION

console = Console(stderr=True)
MAX_NAMED = 3
SOME_REFUSED = 3  # exit code
REFUSALS = (IndexMismatch, IngestBusy, EmbedderFailed, ClusterFailed)


def ingest_paths(
    names: list[str],
    data_dir: Path | None,
    collection: str | None = None,
    *,
    prune: bool,
    renew: bool,
    on_cluster: bool,
) -> None:
    with ends_at_failure(*REFUSALS):
        given = {"data_dir": data_dir} if data_dir else {}
        settings = load_settings(StateSettings, **given)
        if renew:
            console.print(f"renewed {asyncio.run(_reindex(settings))} chunks")
        if names:
            place = collection or DEFAULT_COLLECTION
            report = asyncio.run(ingest(names, settings, prune, on_cluster, place))
            if report.refused:
                raise typer.Exit(SOME_REFUSED)


async def ingest(
    names: list[str],
    settings: StateSettings,
    prune: bool = False,
    on_cluster: bool = False,
    collection: str = DEFAULT_COLLECTION,
) -> Report:
    """Reads and tells what became of every file.

    Raises StartFailed, and Exit(1) where nothing could be read.
    """
    redact.learn(settings)
    try:
        report = await _ingest(names, settings, prune, on_cluster, collection)
    except REFUSALS as error:
        raise StartFailed(str(error)) from error
    parts = {
        "added": len(report.added),
        "updated": len(report.updated),
        "unchanged": len(report.skipped),
        "removed": len(report.removed),
        "refused": len(report.refused),
        "gone": len(report.missing),
    }
    counts = [f"{count} {what}" for what, count in parts.items() if count]
    console.print(
        f"{', '.join(counts) or 'no files found'} · {report.chunks} chunks in {report.took_s:.1f} s"
    )
    for refusal in report.refused:
        console.print(f"  refused {refusal.source}: {refusal.reason}", markup=False)
    if report.missing:
        named = ", ".join(map(shown, report.missing[:MAX_NAMED]))
        named += ", …" if len(report.missing) > MAX_NAMED else ""
        console.print(
            f"  gone {named}: no file is there any more, yet questions still find what was read"
            " from it; --prune removes it",
            markup=False,
        )
    if report.nothing_read:
        raise typer.Exit(1)
    return report


async def _ingest(
    names: list[str], settings: StateSettings, prune: bool, on_cluster: bool, collection: str
) -> Report:
    # The dictionary loads with the first file that is new: often there is none.
    segmenter = Segmenter(settings.data_dir / "cache")
    embedder = await asyncio.to_thread(chosen_embedder, settings, segmenter)
    token = settings.index_token.get_secret_value()
    index = await open_index(settings.data_dir / "index", embedder, settings.index_url, token)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    async with AsyncExitStack() as stack:
        bar = stack.enter_context(
            Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        )
        task = bar.add_task("reading", total=None)

        def progress(done: int, everything: int, source: str) -> None:
            bar.update(task, completed=done, total=everything, description=source[-40:])

        questioner = await stack.enter_async_context(_questioner(settings, segmenter))
        urls = [name for name in names if is_url(name)]
        reader = page_reader(settings.fetch_allowed_hosts)
        await stack.enter_async_context(aclosing(reader))
        report = await pipeline.ingest(
            [Path(name) for name in names if not is_url(name)],
            index,
            segmenter,
            urls=urls,
            download=partial(downloaded, reader=reader),
            prune=prune,
            progress=progress,
            chunking=Chunking(settings.chunking, settings.chunk_tokens),
            loaders=settings.loaders_by_suffix,
            questioner=questioner,
            on_cluster=on_cluster,
            collection=collection,
        )
    if questioner is not None and questioner.note:
        console.print(questioner.note, style="yellow", markup=False, highlight=False)
    return report


@asynccontextmanager
async def _questioner(
    settings: StateSettings, segmenter: Segmenter
) -> AsyncIterator[Questioner | None]:
    """Where questions are asked for: the chat model's settings are read only then."""
    if not settings.hypothetical_questions:
        yield None
        return
    # No fallback stands in here: the model has its whole time.
    service = load_settings(Settings).model_copy(update={"fallback_model": ""})
    redact.learn(service)
    langsmith.configure(enabled=service.langsmith)
    chat = await asyncio.to_thread(chosen_chat, service)
    try:
        yield Questioner(chat, settings.hypothetical_questions, segmenter)
    finally:
        await chat.aclose()


async def _reindex(settings: StateSettings) -> int:
    segmenter = Segmenter(settings.data_dir / "cache")
    token = settings.index_token.get_secret_value()
    folder = settings.data_dir / "index"
    embedder = await asyncio.to_thread(chosen_embedder, settings, segmenter)
    return await pipeline.reindex(folder, embedder, segmenter, settings.index_url, token)
