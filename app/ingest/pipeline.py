"""Ingest pipeline: only what is new or changed is read, cut into chunks, embedded and stored."""

import asyncio
import logging
import math
import os
import pickle
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Lock
from types import MappingProxyType

from langchain_core.language_models import BaseChatModel

from app.ingest import files
from app.ingest.chunker import DEFAULT_CHUNKING, Chunking
from app.ingest.files import Listed, RefusedFile, Report
from app.ingest.image_reader import ImageReader, with_images_read
from app.ingest.loaders.document import BINARY, IMAGES, DocumentRefused
from app.ingest.ray import Outcome, cluster_outcomes
from app.ingest.rows import (
    BATCH_ROWS,
    document_id,
    with_vectors,
    with_words,
    without_image,
)
from app.ingest.sandbox import ParseTask, Sandbox, bare_rows
from app.observability.audit import audit
from app.retrieval.e5_embedder import E5Embedder
from app.retrieval.embedder import Embedder, EmbedderFailed, StaticEmbedder
from app.retrieval.images import ImageStore
from app.retrieval.index import (
    Index,
    IndexUnusable,
    Row,
    StoredDocument,
    renew_index,
    writing,
)
from app.retrieval.tokenizer import Segmenter
from graphs.errors import GeneratorFailed
from graphs.generation.prompts import as_hypothetical_questions, hypothetical_messages
from graphs.generation.replies import short_reply
from graphs.options import DEFAULT_COLLECTION, Scope

# Beyond so many documents, or bytes of one, reading goes on in processes of its own, as it always
# does for formats that can lead a parser astray. Starting them takes longer than a few small files.
IN_PROCESS_DOCUMENTS = 100
IN_PROCESS_BYTES = 50_000
MAX_PROCESSES = 8
MAX_MEMORY_BYTES = 16_000_000
"""Of what was read of an upload and waits to be stored; beyond it, it waits on disk."""
TIMED_CHUNKS = 64
"""The first ones embedded: by them it is told how long all will take."""
TOLD_S = 60.0
"""What takes less is not told."""
MAX_QUESTION_FAILURES = 3
"""After so many the endpoint is taken for down, and the rest goes in without questions."""
LEADS_OUT = "is a link out of the folder named; name what it leads to, to have it read"
KEPT = "lies in the state folder, of which only uploads/shared is read"

log = logging.getLogger(__name__)

NO_LOADERS: Mapping[str, str] = MappingProxyType({})
Progress = Callable[[int, int, str], None]
Download = Callable[[str], AbstractAsyncContextManager[Path]]
"""A page as a file, by its URL; raises DocumentRefused."""


async def ingest(
    paths: Sequence[Path],
    index: Index,
    segmenter: Segmenter,
    *,
    urls: Sequence[str] = (),
    download: Download | None = None,
    prune: bool = False,
    progress: Progress | None = None,
    chunking: Chunking = DEFAULT_CHUNKING,
    questioner: "Questioner | None" = None,
    on_cluster: bool = False,
    collection: str = DEFAULT_COLLECTION,
    loaders: Mapping[str, str] = NO_LOADERS,
) -> Report:
    """Brings files, folders (with all below them), patterns and, with a `download`, URLs in.

    Files are known by their path and skipped while their content is unchanged. `prune` removes
    documents of these paths whose file is gone or is now refused for what it is. `progress` hears
    (done, all, source). `on_cluster`: files, not pages, are read by Ray. Nothing is known, written
    or removed beyond `collection`. Raises IngestBusy after a minute, IndexUnusable, ClusterFailed.
    """
    async with writing(index.folder):
        scope = Scope(collections=(collection,))
        known = await index.documents(scope)
        state = files.StateFolder(index.folder.parent)
        items = await asyncio.to_thread(files.listed, paths, known, state)
        missing = await asyncio.to_thread(files.missing, paths, known, items, state)
        work = Ingest(
            index, segmenter, known, scope, prune=prune, progress=progress, chunking=chunking,
            download=download, questioner=questioner, on_cluster=on_cluster, loaders=loaders,
        )  # fmt: skip
        private = await asyncio.to_thread(state.private_paths, paths)
        work.report.refused += [RefusedFile(files.shown(str(path)), KEPT) for path in private]
        out = await asyncio.to_thread(files.links_out, paths)
        work.report.refused += [RefusedFile(files.shown(str(path)), LEADS_OUT) for path in out]
        if not prune:
            work.report.missing = [each.source for each in missing if files.is_gone(each.path)]
        pages = files.listed_pages(urls, known)
        report = await work.all([*items, *pages], missing if prune else [])
        for what, sources in (
            ("documents brought in", [*report.added, *report.updated]),
            ("documents deleted", report.removed),
        ):
            ids = (document_id(source, collection=collection) for source in sources)
            audit(what, "", ids, collection=collection)
        return report


async def reindex(
    folder: Path, embedder: Embedder, segmenter: Segmenter, url: str = "", token: str = ""
) -> int:
    """Renews words and vectors of every stored chunk; says how many chunks there are.

    Images that documents have left behind, as where the image store could not be written, go.
    Raises IngestBusy, EmbedderFailed, IndexUnusable; the old index then stays.
    """
    failed: list[EmbedderFailed] = []
    documents: set[str] = set()
    embedding = TimedEmbedding(embedder)

    def encode(rows: Sequence[Row], total: int) -> list[Row]:
        documents.update(row["document_id"] for row in rows)
        try:
            return embedding.embedded(with_words(rows, segmenter), total)
        except EmbedderFailed as error:
            failed.append(error)  # the storage that asks for rows makes another error of it
            raise

    async with writing(folder):
        try:
            chunks = await renew_index(folder, embedder, encode, url, token)
        except IndexUnusable:
            if failed:
                raise failed[0] from None
            raise
        images = ImageStore(folder.parent)
        try:
            left = {of for _, of in await asyncio.to_thread(images.keys)} - documents
            await asyncio.to_thread(images.delete, sorted(left))
        except IndexUnusable as error:
            log.error("images of deleted documents may be left: %s", error)
        return chunks


@dataclass
class Ingest:
    """One ingest, by whoever holds the right to write; `prune` None: nobody can ask for it.

    It reads into the scope's collection. `loaders` are class paths of the user's choice, by suffix.
    """

    index: Index
    segmenter: Segmenter
    known: Sequence[StoredDocument]
    scope: Scope
    prune: bool | None = None
    progress: Progress | None = None
    chunking: Chunking = DEFAULT_CHUNKING
    download: Download | None = None
    questioner: "Questioner | None" = None
    on_cluster: bool = False
    loaders: Mapping[str, str] = field(default_factory=lambda: NO_LOADERS)

    def __post_init__(self) -> None:
        self.report = Report()
        self._embedding = TimedEmbedding(self.index.embedder)
        self._items = self._settled = 0
        self._waiting: list[tuple[Listed, list[Row]]] = []
        self._outdated: list[StoredDocument] = []
        self._max_processes = min(os.cpu_count() or 1, MAX_PROCESSES)
        state = self.index.folder.parent
        self._ahead = Spool(state)
        self._sandbox = Sandbox(state / "cache", self._max_processes)
        self._images, self._image_reader = ImageStore(state), ImageReader(state / "cache")

    async def read_ahead(self, items: Sequence[Listed]) -> None:
        """Reads what `all` is to store, and embeds it by e5: that needs no right to write.

        Beyond some megabytes it waits on disk. What is stored or listed otherwise by then is read
        again.
        """
        self._in_process = len(items) <= IN_PROCESS_DOCUMENTS
        # An endpoint is asked for many documents at once, which is `all`'s business.
        embeds_here = isinstance(self.index.embedder, E5Embedder) and self.questioner is None
        async with aclosing(self._read_here(items)) as outcomes:
            async for item, outcome in outcomes:
                if embeds_here and not isinstance(outcome, DocumentRefused):
                    outcome = await asyncio.to_thread(with_vectors, outcome, self.index.embedder)
                await asyncio.to_thread(self._ahead.keep, item, outcome)

    async def aclose(self) -> None:
        """To be called where `all` was not."""
        await self._sandbox.aclose()
        await self._image_reader.aclose()
        await asyncio.to_thread(self._ahead.close)

    async def all(self, items: Sequence[Listed], outdated: Sequence[StoredDocument] = ()) -> Report:
        started = time.perf_counter()
        self._outdated += outdated
        self._items = len(items)
        self._in_process = len(items) <= IN_PROCESS_DOCUMENTS
        read = self._read_on_cluster if self.on_cluster else self._read_here
        try:
            async with aclosing(read(items)) as outcomes:
                async for item, outcome in outcomes:
                    await self._settle(item, outcome)
            await self._commit()
        finally:
            await self.aclose()
        ids = [document.id for document in self._outdated]
        await self.index.delete(ids, self.scope)
        await asyncio.to_thread(self._images.delete, ids)
        self.report.removed += sorted(document.source for document in self._outdated)
        self._tell(len(items), len(items), "")
        # One that was killed before may have left much to be tidied, though nothing is new.
        await tidy(self.index)
        self.report.took_s = time.perf_counter() - started
        return self.report

    async def _read_here(self, items: Sequence[Listed]) -> AsyncGenerator[tuple[Listed, Outcome]]:
        """A few are read ahead, as many as there are processes, and come in their order."""
        ahead: deque[tuple[Listed, asyncio.Task[Outcome]]] = deque()
        alone = self._in_process and self.download is None
        max_ahead, upcoming = 1 if alone else 1 + self._max_processes, iter(items)
        try:
            for done in range(len(items)):
                for item in islice(upcoming, max_ahead - len(ahead)):
                    ahead.append((item, asyncio.create_task(self._read(item))))
                item, task = ahead[0]
                if item not in self._ahead:
                    self._tell(done, len(items), item.shown)
                yield item, await task
                ahead.popleft()
        finally:
            for _, task in ahead:
                task.cancel()
            await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)

    async def _read_on_cluster(
        self, items: Sequence[Listed]
    ) -> AsyncGenerator[tuple[Listed, Outcome]]:
        """The files in any order, then the pages, which are downloaded and read here."""
        new: list[Listed] = []
        for item in (item for item in items if not item.is_page):
            try:
                if await asyncio.to_thread(files.changed_bytes, item, self.chunking.name) is None:
                    yield item, []
                else:
                    new.append(item)
            except DocumentRefused as refusal:
                yield item, refusal
        done = 0
        async for at, outcome in cluster_outcomes(list(map(self._task, new)) if new else []):
            self._tell(done, len(new), new[at].shown)
            yield new[at], await self._with_images(outcome)
            done += 1
        async with aclosing(self._read_here([item for item in items if item.is_page])) as pages:
            async for page, outcome in pages:
                yield page, outcome

    async def _with_images(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, DocumentRefused):
            return outcome
        try:
            return await with_images_read(outcome, self._image_reader)
        except DocumentRefused as refusal:
            return refusal

    async def _settle(self, item: Listed, outcome: Outcome) -> None:
        self._settled += 1
        if isinstance(outcome, DocumentRefused):
            refused, outdated = files.judged(item, outcome, self.known, self.prune)
            self._outdated += outdated
            self.report.refused += [refused] if refused else []
        elif not outcome:
            self.report.skipped.append(item.source)
        else:
            self._waiting.append((item, outcome))
            if sum(len(rows) for _, rows in self._waiting) >= BATCH_ROWS:
                await self._commit()

    async def _read(self, item: Listed) -> Outcome:
        """Rows of a new or changed document, none of an unchanged one, or why there are none."""
        if item in self._ahead:
            return await asyncio.to_thread(self._ahead.read, item)
        try:
            if not item.is_page:
                return await self._with_images(await self._rows(item))
            assert self.download is not None
            async with self.download(item.source) as file:
                return await self._with_images(await self._rows(replace(item, file=file)))
        except DocumentRefused as refusal:
            return refusal

    async def _rows(self, item: Listed) -> list[Row]:
        size = await asyncio.to_thread(
            files.changed_bytes, item, self.chunking.name, self.loaders.keys()
        )
        if size is None:
            return []
        suffix = item.file.suffix.lower()
        apart = suffix in BINARY or suffix in self.loaders
        is_small = size <= IN_PROCESS_BYTES and not apart
        # An image file has no text but its caption; its pixels are read apart later.
        if suffix in IMAGES or (self._in_process and is_small):
            rows = await asyncio.to_thread(bare_rows, replace(self._task(item), loader=""))
            return await asyncio.to_thread(with_words, rows, self.segmenter)
        return await self._sandbox.rows(self._task(item))

    def _task(self, item: Listed) -> ParseTask:
        embed = isinstance(self.index.embedder, StaticEmbedder) and self.questioner is None
        file = os.path.abspath(item.file)
        return ParseTask(
            file,
            item.source,
            item.path,
            item.owner,
            embed,
            self.chunking,
            self.scope.collection,
            self.loaders.get(item.file.suffix.lower(), ""),
            item.root,
        )

    async def _commit(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        rows = [row for _, of_item in waiting for row in of_item]
        if self.questioner is not None:
            rows = await self.questioner.added(rows)
        # What is yet to be read has as many chunks a document as what was read so far.
        total = len(rows) * self._items // self._settled
        rows = await asyncio.to_thread(self._embedding.embedded, rows, total)
        async with AsyncExitStack() as undo:
            images = [row["id"] for row in rows if "image" in row]
            undo.push_async_callback(asyncio.to_thread, self._images.delete, images, "id")
            await asyncio.to_thread(self._images.put, rows)
            await self.index.put([without_image(row) for row in rows])
            undo.pop_all()
        # From here on these documents are in the knowledge base, whatever fails.
        for item, _ in waiting:
            (self.report.updated if item.stored else self.report.added).append(item.source)
        self.report.chunks += len(rows)
        if any(item.stored for item, _ in waiting):
            try:
                await asyncio.to_thread(self._images.replace_old, rows)
            except IndexUnusable as error:
                log.error("images of former versions stay: %s", error)

    def _tell(self, done: int, total: int, source: str) -> None:
        if self.progress is not None:
            self.progress(done, total, source)


class Spool:
    """What was read of documents and waits to be stored; `close` frees it.

    The file in `folder` has no name: nobody else can open it, and it ends with the process.
    """

    def __init__(self, folder: Path) -> None:
        self._file: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(  # noqa: SIM115
            max_size=MAX_MEMORY_BYTES, dir=str(folder)
        )
        self._places: dict[Listed, int] = {}
        self._lock = Lock()

    def __contains__(self, item: Listed) -> bool:
        return item in self._places

    def keep(self, item: Listed, outcome: Outcome) -> None:
        with self._lock:
            self._places[item] = self._file.seek(0, 2)
            pickle.dump(outcome, self._file)

    def read(self, item: Listed) -> Outcome:
        with self._lock:
            self._file.seek(self._places[item])
            outcome: Outcome = pickle.load(self._file)  # what `keep` has written
            return outcome

    def close(self) -> None:
        with self._lock:
            self._file.close()


class TimedEmbedding:
    """Embeds rows, and tells once how long all of them will take, where that is minutes."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._is_told = isinstance(embedder, StaticEmbedder)  # which takes none

    def embedded(self, rows: Sequence[Row], total: int) -> list[Row]:
        """The rows with vectors; `total` is how many there may be in all. Raises EmbedderFailed."""
        if self._is_told:
            return with_vectors(rows, self._embedder)
        self._is_told, first, rest = True, rows[:TIMED_CHUNKS], rows[TIMED_CHUNKS:]
        started = time.perf_counter()
        done = with_vectors(first, self._embedder)
        left_s = (time.perf_counter() - started) / max(len(first), 1) * (total - len(first))
        if left_s >= TOLD_S:
            minutes = math.ceil(left_s / 60)
            log.warning("embedding about %d chunks will take about %d minutes", total, minutes)
        return [*done, *with_vectors(rest, self._embedder)] if rest else done


async def tidy(index: Index) -> None:
    """Tidies after what is stored already; where it fails, it is left to the next writer."""
    try:
        await index.tidy()
    except IndexUnusable as error:
        log.warning("not tidied: %s", error)


class Questioner:
    """Asks a chat model for `count` questions a chunk; the model bounds the calls under way.

    Chunks for which it fails go in without; `note` says how many they are, and why.
    """

    def __init__(self, chat: BaseChatModel, count: int, segmenter: Segmenter) -> None:
        self._chat, self._count, self._segmenter = chat, count, segmenter
        self._failures = self._without = 0
        self._reason = ""

    @property
    def note(self) -> str:
        if not self._without:
            return ""
        return f"{self._without} chunks without hypothetical questions: {self._reason}"

    async def added(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, still without vectors, with questions and the words of these."""
        questions = await asyncio.gather(*map(self._questions, rows))
        fresh = [row | {"questions": own} for row, own in zip(rows, questions, strict=True)]
        return await asyncio.to_thread(with_words, fresh, self._segmenter)

    async def _questions(self, row: Row) -> list[str]:
        if self._failures < MAX_QUESTION_FAILURES:
            messages = hypothetical_messages(
                row["title"], row["text"], self._count, row["language"]
            )
            try:
                text, _ = await short_reply(self._chat, messages)
            except GeneratorFailed as error:
                self._failures += 1
                self._reason = str(error)
                log.warning("no hypothetical questions: %s", error)
            else:
                self._failures = 0
                return as_hypothetical_questions(text, self._count)
        self._without += 1
        return []
