"""Documents to the knowledge base: only what is new or changed is read, split and embedded."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from app.ingest.changes import changed_bytes
from app.ingest.child import Task
from app.ingest.children import Children
from app.ingest.errors import DocumentRefused
from app.ingest.files import Listed, StateFolder, at_or_below, gone, is_gone, listed, shown
from app.ingest.hypothetical_questions import Questioner
from app.ingest.loaders.by_suffix import BINARY
from app.ingest.ray import Outcome, cluster_outcomes
from app.ingest.rows import BATCH_ROWS, Row, embedded, file_rows, with_words
from app.ingest.web_pages import downloaded, listed_pages
from app.retrieval.chunking import Cutting
from app.retrieval.embedders.static import StaticEmbedder
from app.retrieval.index import Index, StoredDocument
from app.retrieval.tokenizer import Segmenter
from app.retrieval.write_lock import writing
from app.websearch.page import PageReader

# Rows that are put into the index in one commit, and so the most that are held in memory beside
# those of the documents that are being read.
COMMIT_ROWS = BATCH_ROWS
# Beyond so many documents, or bytes of one, reading goes on in processes of its own, as it always
# does for formats that can lead a parser astray. Starting them takes longer than a few small files.
HERE_DOCUMENTS = 100
HERE_BYTES = 200_000
MOST_CHILDREN = 8
KEPT = "lies in the state folder, of which only uploads/shared is read"

Progress = Callable[[int, int, str], None]


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
    urls: Sequence[str] = (),
    reader: PageReader | None = None,
    prune: bool = False,
    progress: Progress | None = None,
    cutting: Cutting | None = None,
    questioner: Questioner | None = None,
    on_cluster: bool = False,
) -> Report:
    """Brings files, folders (with all below them), patterns and, with a `reader`, URLs in.

    A file is known by its path, links resolved, and skipped while its content is unchanged. What
    lies in the state folder is left out, but for shared uploads.
    `prune` removes documents of these paths whose file is gone or is now refused for what it is.
    `progress` hears (done, all, source). `on_cluster`: files, not pages, are read by Ray. Raises
    IngestBusy after waiting a minute for another writer, IndexUnusable where the index is damaged,
    ClusterFailed.
    """
    cutting = cutting or Cutting()
    async with writing(index.folder):
        known = await index.documents()
        state = StateFolder(index.folder.parent)
        files = await asyncio.to_thread(listed, paths, known, state)
        outdated = await asyncio.to_thread(gone, paths, known, files, state) if prune else []
        work = Ingest(
            index, segmenter, known, prune=prune, progress=progress, cutting=cutting,
            reader=reader, questioner=questioner, on_cluster=on_cluster,
        )  # fmt: skip
        kept = await asyncio.to_thread(state.kept, paths)
        work.report.refused += [Refused(shown(str(path)), KEPT) for path in kept]
        return await work.all([*files, *listed_pages(urls, known)], outdated)


class Ingest:
    """One ingest, by whoever holds the right to write; `prune` None: nobody can ask for it."""

    def __init__(
        self,
        index: Index,
        segmenter: Segmenter,
        known: Sequence[StoredDocument],
        *,
        prune: bool | None = None,
        progress: Progress | None = None,
        cutting: Cutting | None = None,
        reader: PageReader | None = None,
        questioner: Questioner | None = None,
        on_cluster: bool = False,
    ) -> None:
        self.report = Report()
        self._reader, self._questioner, self._on_cluster = reader, questioner, on_cluster
        self._index = index
        self._segmenter = segmenter
        self._known = known
        self._prune = prune
        self._progress = progress
        self._cutting = cutting or Cutting()
        self._waiting: list[Row] = []
        self._outdated: list[StoredDocument] = []
        self._most = min(os.cpu_count() or 1, MOST_CHILDREN)
        self._children = Children(index.folder.parent / "cache", self._most)
        self._here = True

    async def all(self, items: Sequence[Listed], outdated: Sequence[StoredDocument] = ()) -> Report:
        """Brings the items in and removes what is outdated."""
        started = time.perf_counter()
        self._outdated += outdated
        self._here = len(items) <= HERE_DOCUMENTS
        try:
            if self._on_cluster:
                items = await self._read_on_cluster(items)
            await self._read_all(items)
        finally:
            await self._children.aclose()
        await self._commit()
        await self._remove()
        self._tell(len(items), len(items), "")
        # One that was killed before may have left much to be tidied, though nothing is new.
        await self._index.tidy()
        self.report.took_s = time.perf_counter() - started
        return self.report

    async def _read_all(self, items: Sequence[Listed]) -> None:
        """A few are read ahead, as many as there are processes, and taken in their order."""
        ahead: deque[tuple[int, Listed, asyncio.Task[list[Row]]]] = deque()
        try:
            for number, item in enumerate(items):
                ahead.append((number, item, asyncio.create_task(self._read(item))))
                while len(ahead) > (0 if self._here and self._reader is None else self._most):
                    await self._take(ahead, len(items))
            while ahead:
                await self._take(ahead, len(items))
        finally:
            for *_, task in ahead:
                task.cancel()
            await asyncio.gather(*(task for *_, task in ahead), return_exceptions=True)

    async def _take(
        self, ahead: deque[tuple[int, Listed, asyncio.Task[list[Row]]]], every: int
    ) -> None:
        number, item, task = ahead[0]
        self._tell(number, every, item.shown)
        try:
            outcome: Outcome = await task
        except DocumentRefused as refusal:
            outcome = refusal
        finally:
            ahead.popleft()
        await self._settle(item, outcome)

    async def _settle(self, item: Listed, outcome: Outcome) -> None:
        if isinstance(outcome, DocumentRefused):
            self._refuse(item, outcome)
            return
        if not outcome:
            self.report.skipped.append(item.source)
            return
        self._waiting += outcome
        (self.report.updated if item.stored else self.report.added).append(item.source)
        if len(self._waiting) >= COMMIT_ROWS:
            await self._commit()

    async def _read_on_cluster(self, items: Sequence[Listed]) -> list[Listed]:
        """Reads the files and returns the pages, which are downloaded and read here."""
        new: list[Listed] = []
        for item in items:
            if item.is_page:
                continue
            try:
                if await asyncio.to_thread(changed_bytes, item, self._cutting.name) is None:
                    await self._settle(item, [])
                else:
                    new.append(item)
            except DocumentRefused as refusal:
                await self._settle(item, refusal)
        done = 0
        async for at, outcome in cluster_outcomes(list(map(self._task, new)) if new else []):
            self._tell(done, len(new), new[at].shown)
            await self._settle(new[at], outcome)
            done += 1
        return [item for item in items if item.is_page]

    async def _read(self, item: Listed) -> list[Row]:
        """Rows of a new or changed document, none of an unchanged one. Raises DocumentRefused."""
        if item.is_page:
            assert self._reader is not None
            async with downloaded(item.source, self._reader) as file:
                return await self._read(replace(item, file=file, is_page=False))
        size = await asyncio.to_thread(changed_bytes, item, self._cutting.name)
        if size is None:
            return []
        if self._here and size <= HERE_BYTES and item.file.suffix.lower() not in BINARY:
            return await asyncio.to_thread(self._rows, item)
        return await self._children.rows(self._task(item))

    def _task(self, item: Listed) -> Task:
        embed = isinstance(self._index.embedder, StaticEmbedder)
        file = os.path.abspath(item.file)
        return Task(file, item.source, item.path, item.owner, embed, asdict(self._cutting))

    def _rows(self, item: Listed) -> list[Row]:
        rows = file_rows(item.file, item.source, item.path, item.owner, self._cutting)
        return with_words(rows, self._segmenter)

    def _refuse(self, item: Listed, refusal: DocumentRefused) -> None:
        """What was read from the path before stays, and so said, or goes if asked to prune.

        An outage is no reason to let it go.
        """
        reason = refusal.reason
        missing = bool(item.path) and is_gone(item.path)
        stored = at_or_below([item.path], self._known) if missing else [item.stored]
        earlier = [document for document in stored if document is not None]
        if earlier and self._prune and not refusal.may_pass:
            if missing:  # told among the removed
                return
            self._outdated += earlier
        elif earlier and item.stored:
            reason += "; its earlier version stays"
            if self._prune is not None:
                reason += ", for this may pass" if refusal.may_pass else ", --prune removes it"
        elif earlier:
            reason += f"; {len(earlier)} documents read from it stay, --prune removes them"
        self.report.refused.append(Refused(item.shown, reason))

    async def _commit(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        if self._questioner is not None:
            waiting = await self._questioner.added(waiting)
        rows = await asyncio.to_thread(embedded, waiting, self._index.embedder)
        await self._index.put(rows)
        self.report.chunks += len(rows)

    async def _remove(self) -> None:
        await self._index.delete([document.id for document in self._outdated])
        self.report.removed += sorted(document.source for document in self._outdated)

    def _tell(self, done: int, every: int, source: str) -> None:
        if self._progress is not None:
            self._progress(done, every, source)
