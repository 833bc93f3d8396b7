"""`selfcrag ingest`: fills the knowledge base and tells what became of every file."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.retrieval.chosen import chosen_embedder
from app.retrieval.embed import EmbedderFailed
from app.retrieval.index import IndexMismatch
from app.retrieval.ingest import IngestBusy, Report, ingest
from app.retrieval.opening import open_index
from app.retrieval.renew import reindex
from app.retrieval.segment import Segmenter
from app.settings import StateSettings

console = Console(stderr=True)


def ingest_command(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders: Markdown, text, HTML, PDF.")
    ] = None,
    prune: Annotated[
        bool, typer.Option(help="Remove documents of these paths whose file is gone or refused.")
    ] = False,
    renew: Annotated[
        bool, typer.Option("--reindex", help="First renew words and vectors of what is stored.")
    ] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Instead of SELFCRAG_DATA_DIR.")] = None,
) -> None:
    """Bring files into the knowledge base; unchanged ones are skipped."""
    if not paths and not renew:
        raise typer.BadParameter("name a file or folder to read, or --reindex")
    try:
        data_dir = data_dir or StateSettings().data_dir
        if renew:
            chunks = asyncio.run(_reindex(data_dir))
            console.print(f"renewed {chunks} chunks")
        if not paths:
            return
        report = asyncio.run(_ingest(paths, data_dir, prune))
    except (IndexMismatch, IngestBusy, EmbedderFailed) as error:
        console.print(f"selfcrag: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    summarise(report)
    if report.nothing_read:
        raise typer.Exit(1)


def summarise(report: Report) -> None:
    parts = {
        "added": len(report.added),
        "updated": len(report.updated),
        "unchanged": len(report.skipped),
        "removed": len(report.removed),
        "refused": len(report.refused),
    }
    told = [f"{count} {what}" for what, count in parts.items() if count]
    console.print(
        f"{', '.join(told) or 'no files found'} · {report.chunks} chunks in {report.took_s:.1f} s"
    )
    for refusal in report.refused:
        console.print(f"  refused {refusal.source}: {refusal.reason}", markup=False)


async def _ingest(paths: list[Path], data_dir: Path, prune: bool) -> Report:
    # Dictionary and table load with the first file that is new: often there is none.
    segmenter = Segmenter(data_dir / "cache")
    embedder = await asyncio.to_thread(chosen_embedder, StateSettings(), segmenter)
    index = await open_index(data_dir / "index", embedder)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def progress(done: int, everything: int, source: str) -> None:
            bar.update(task, completed=done, total=everything, description=source[-40:])

        return await ingest(paths, index, segmenter, prune=prune, progress=progress)


async def _reindex(data_dir: Path) -> int:
    segmenter = Segmenter(data_dir / "cache")
    embedder = await asyncio.to_thread(chosen_embedder, StateSettings(), segmenter)
    return await reindex(data_dir / "index", embedder, segmenter)
