"""Files to the knowledge base: only what is new or changed is read, split and embedded."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from app.retrieval.chunk import chunk
from app.retrieval.embed import Embedder
from app.retrieval.index import (
    Index,
    IndexUnusable,
    StoredDocument,
    make_folder,
    replace_all,
    stored_chunks,
)
from app.retrieval.listing import Listed, at_or_below, gone, is_gone, listed
from app.retrieval.loaders import READERS, Document, digest, load, read
from app.retrieval.refusal import DocumentRefused
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

    A file is known by its path, links resolved, and skipped while its content is unchanged.
    `prune` removes documents of these paths whose file is gone or is now refused. `progress` hears
    (done, all, source). Raises IngestBusy after waiting a minute for another writer and
    IndexUnusable where the index is damaged.
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
    """Renews words and vectors of every stored chunk; says how many chunks there are.

    Raises IngestBusy, and IndexUnusable where there is no index or it cannot be read.
    """
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
    make_folder(folder.parent)
    return folder.with_name(folder.name + ".lock")


def document_id(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def document_rows(source: str, path: str, document: Document) -> list[Row]:
    """One row a chunk, still without words and vectors."""
    identity = document_id(source)
    chunks = chunk(document.blocks)
    shared = {
        "document_id": identity,
        "title": document.title,
        "source": source,
        "path": path,
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
        self._known: list[StoredDocument] = []
        self._outdated: list[StoredDocument] = []

    async def all(self, paths: Sequence[Path], prune: bool) -> Report:
        self._known = await self._index.documents()
        files = await asyncio.to_thread(listed, paths, self._known)
        if prune:
            self._outdated = await asyncio.to_thread(gone, paths, self._known, files)
        for done, file in enumerate(files):
            if self._progress is not None:
                self._progress(done, len(files), file.shown)
            await self._file(file, prune)
        await self._commit()
        await self._remove()
        if self._progress is not None:
            self._progress(len(files), len(files), "")
        if self._report.chunks or self._report.removed:
            await self._index.tidy()
        return self._report

    async def _file(self, file: Listed, prune: bool) -> None:
        try:
            rows = await asyncio.to_thread(_rows, file)
        except DocumentRefused as refusal:
            self._refuse(file, refusal.reason, prune)
            return
        if not rows:
            self._report.skipped.append(file.source)
            return
        self._waiting += rows
        (self._report.updated if file.stored else self._report.added).append(file.source)
        if len(self._waiting) >= COMMIT_ROWS:
            await self._commit()

    def _refuse(self, file: Listed, reason: str, prune: bool) -> None:
        """What was read from the path before stays, and so said, or goes if asked to prune."""
        missing = is_gone(file.path)
        stored = at_or_below([file.path], self._known) if missing else [file.stored]
        earlier = [document for document in stored if document is not None]
        if earlier and prune:
            if missing:  # told among the removed
                return
            self._outdated += earlier
        elif earlier:
            reason += (
                "; its earlier version stays, --prune removes it"
                if file.stored
                else f"; {len(earlier)} documents read from it stay, --prune removes them"
            )
        self._report.refused.append(Refused(file.shown, reason))

    async def _commit(self) -> None:
        if not self._waiting:
            return
        rows = await asyncio.to_thread(
            encoded, self._waiting, self._index.embedder, self._segmenter
        )
        await self._index.put(rows)
        self._report.chunks += len(rows)
        self._waiting = []

    async def _remove(self) -> None:
        await self._index.delete([document.id for document in self._outdated])
        self._report.removed += sorted(document.source for document in self._outdated)


def _acquire(lock: FileLock) -> None:
    try:
        lock.acquire()
    except Timeout as error:
        raise IngestBusy(
            "another process is writing to this knowledge base; try again when it has ended"
        ) from error
    except OSError as error:
        raise IndexUnusable(f"{lock.lock_file} cannot be written: {error.strerror}") from error


def _rows(item: Listed) -> list[Row]:
    """Rows of a new or changed file, none of an unchanged one. Raises DocumentRefused."""
    file, stored = item.file, item.stored
    if not _is_utf8(item.path):
        raise DocumentRefused("its path is not UTF-8; rename it")
    if file.suffix.lower() not in READERS and not is_gone(item.path):
        load(file, b"")  # tells what is known, without reading what is not
    content = read(file)
    if stored is not None and (stored.path, stored.sha256) == (item.path, digest(content)):
        return []
    rows = document_rows(item.source, item.path, load(file, content))
    if not rows:
        raise DocumentRefused("no text in it")
    return rows


def _is_utf8(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
