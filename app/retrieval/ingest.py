"""Files to the knowledge base: only what is new or changed is read, split and embedded."""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from app.retrieval.chunk import chunk
from app.retrieval.embed import Embedder
from app.retrieval.index import Index, replace_all, stored_chunks
from app.retrieval.loaders import READERS, Document, DocumentRefused, digest, load, read
from app.retrieval.segment import Segmenter
from graphs.text import language_of

# Rows that are put into the index in one commit, and so the most that are held in memory beside
# those of a single document.
COMMIT_ROWS = 512
LOCK_TIMEOUT_S = 60.0
SECTION = " › "

Row = dict[str, Any]
Progress = Callable[[int, int, str], None]


class IngestBusy(Exception):
    """Another process is writing to the same knowledge base."""


@dataclass(frozen=True, slots=True)
class Refused:
    source: str
    reason: str


@dataclass(slots=True)
class Report:
    """Sources by what became of them; `chunks` counts those written in this run."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    chunks: int = 0
    took_s: float = 0.0

    @property
    def nothing_read(self) -> bool:
        return not (self.added or self.updated or self.skipped or self.removed)


async def ingest(
    paths: Sequence[Path],
    index: Index,
    segmenter: Segmenter,
    *,
    prune: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Brings files and folders (with all below them) into the index.

    A file is known by its source and skipped while its content is unchanged. `prune` removes
    documents whose file is gone from one of the folders. `progress` hears (done, all, source).
    Raises IngestBusy after waiting a minute for another writer.
    """
    started = time.perf_counter()
    lock = FileLock(lock_file(index.folder), timeout=LOCK_TIMEOUT_S, thread_local=False)
    await asyncio.to_thread(_acquire, lock)
    try:
        report = await _Run(index, segmenter, progress).all(paths, prune)
    finally:
        lock.release()
    report.took_s = time.perf_counter() - started
    return report


async def reindex(folder: Path, embedder: Embedder, segmenter: Segmenter) -> int:
    """Renews words and vectors of every stored chunk; says how many chunks there are."""
    lock = FileLock(lock_file(folder), timeout=LOCK_TIMEOUT_S, thread_local=False)
    await asyncio.to_thread(_acquire, lock)
    try:
        rows = [dict(row) for row in await stored_chunks(folder)]
        batches = (
            encoded(rows[at : at + COMMIT_ROWS], embedder, segmenter)
            for at in range(0, len(rows), COMMIT_ROWS)
        )
        await replace_all(folder, embedder, batches)
    finally:
        lock.release()
    return len(rows)


def lock_file(folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder.with_name(folder.name + ".lock")


def source_of(path: Path) -> str:
    """The path as clients see it: below the working directory relative to it, else absolute."""
    absolute = Path(os.path.abspath(path))
    working = Path.cwd()
    return (absolute.relative_to(working) if working in absolute.parents else absolute).as_posix()


def document_id(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def files_below(path: Path) -> Iterator[Path]:
    """`path` itself, or the files below it in a fixed order, hidden ones left out."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))


def document_rows(source: str, document: Document) -> list[Row]:
    """One row a chunk, still without words and vectors."""
    identity = document_id(source)
    chunks = chunk(document.blocks)
    shared = {
        "document_id": identity,
        "title": document.title,
        "source": source,
        "sha256": document.sha256,
        "bytes": document.bytes,
        "chunks": len(chunks),
        "added_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return [
        shared
        | {
            "id": f"{identity}-{document.sha256[:8]}-{position}",
            "position": position,
            "heading": SECTION.join(part.headings),
            "text": part.text,
            "language": language_of(part.text),
        }
        for position, part in enumerate(chunks)
    ]


def encoded(rows: Sequence[Row], embedder: Embedder, segmenter: Segmenter) -> list[Row]:
    """The rows with the words and vectors they are found by; titles and headings count too."""
    texts = ["\n".join(filter(None, [row["title"], row["heading"], row["text"]])) for row in rows]
    vectors = embedder.embed(texts)
    return [
        row
        | {
            "text_en": text if row["language"] == "en" else None,
            "text_zh": " ".join(segmenter.words(text)) if row["language"] == "zh" else None,
            "vector": vector if vector.any() else None,
        }
        for row, text, vector in zip(rows, texts, vectors, strict=True)
    ]


class _Run:
    """One ingest under the lock."""

    def __init__(self, index: Index, segmenter: Segmenter, progress: Progress | None) -> None:
        self._index = index
        self._segmenter = segmenter
        self._progress = progress
        self._report = Report()
        self._waiting: list[Row] = []

    async def all(self, paths: Sequence[Path], prune: bool) -> Report:
        files = await asyncio.to_thread(_listed, paths)
        known = {document.source: document.sha256 for document in await self._index.documents()}
        for done, (source, path) in enumerate(files.items()):
            if self._progress is not None:
                self._progress(done, len(files), source)
            await self._file(source, path, known.get(source))
        await self._commit()
        if prune:
            await self._prune([path for path in paths if path.is_dir()], known, files)
        if self._progress is not None:
            self._progress(len(files), len(files), "")
        if self._report.chunks or self._report.removed:
            await self._index.tidy()
        return self._report

    async def _file(self, source: str, path: Path, known_hash: str | None) -> None:
        try:
            rows = await asyncio.to_thread(_rows, source, path, known_hash)
        except DocumentRefused as refusal:
            self._report.refused.append(Refused(source, refusal.reason))
            return
        if not rows:
            self._report.skipped.append(source)
            return
        self._waiting += rows
        (self._report.added if known_hash is None else self._report.updated).append(source)
        if len(self._waiting) >= COMMIT_ROWS:
            await self._commit()

    async def _commit(self) -> None:
        if not self._waiting:
            return
        rows = await asyncio.to_thread(
            encoded, self._waiting, self._index.embedder, self._segmenter
        )
        await self._index.put(rows)
        self._report.chunks += len(rows)
        self._waiting = []

    async def _prune(
        self, folders: Sequence[Path], known: dict[str, str], files: dict[str, Path]
    ) -> None:
        gone = [source for source in _below(folders, known) if source not in files]
        await self._index.delete([document_id(source) for source in gone])
        self._report.removed += gone


def _below(folders: Sequence[Path], sources: Iterable[str]) -> list[str]:
    roots = {Path(os.path.abspath(folder)) for folder in folders}
    return [source for source in sources if roots & set(Path(os.path.abspath(source)).parents)]


def _acquire(lock: FileLock) -> None:
    try:
        lock.acquire()
    except Timeout as error:
        raise IngestBusy(
            "another process is writing to this knowledge base; try again when it has ended"
        ) from error


def _listed(paths: Sequence[Path]) -> dict[str, Path]:
    """Every file once by its source; of folders only the kinds that can be read."""
    listed: dict[str, Path] = {}
    for path in paths:
        for file in files_below(path):
            listed.setdefault(source_of(file), file)
    return listed


def _rows(source: str, path: Path, known_hash: str | None) -> list[Row]:
    """Rows of a new or changed file, none of an unchanged one. Raises DocumentRefused."""
    if path.exists() and path.suffix.lower() not in READERS:
        load(path, b"")  # tells what is known, without reading what is not
    content = read(path)
    if digest(content) == known_hash:
        return []
    rows = document_rows(source, load(path, content))
    if not rows:
        raise DocumentRefused("no text in it")
    return rows
