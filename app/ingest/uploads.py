"""Uploads: an owner's files, brought in over HTTP, listed, replaced and deleted.

An upload is received beside its place, read from there, and moved to its place when the index has
it: whoever leaves or dies on the way leaves what was there before.
"""

import asyncio
import hashlib
import logging
import re
import shutil
import time
import unicodedata
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from app.ingest.chunker import DEFAULT_CHUNKING, Chunking
from app.ingest.files import Listed, Report
from app.ingest.pipeline import NO_LOADERS, Ingest, Progress, tidy
from app.observability.audit import audit
from app.retrieval.document_paths import UPLOADS, owner_folder
from app.retrieval.images import IMAGE_KEYWORD, ImageStore
from app.retrieval.index import (
    Index,
    IndexUnusable,
    IngestBusy,
    StoredCollection,
    StoredDocument,
    writing,
)
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from app.schemas.documents import DocumentBlock
from app.settings import StateSettings
from app.state_folder import INCOMING, create_private, make_private
from graphs.options import DEFAULT_COLLECTION, Scope

log = logging.getLogger(__name__)

T = TypeVar("T")

WAIT_S = 5.0  # for another writer
ABANDONED_S = 3600.0  # whoever received for so long has died
MAX_FILES, MAX_FIELDS = 1000, 1000
MAX_TOTAL_BYTES = 200_000_000
MAX_READ_AT_ONCE, LARGE_BYTES = 4, 20_000_000
"""Uploads whose documents are read side by side; of large ones, which need more memory, one."""
READ_WAIT_S = 60.0  # for one's turn to be read
FIELDS = frozenset({"files", "file"})
# What no file system or terminal should be asked to show.
UNSHOWN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
MAX_NAME_BYTES = 200
# A name beyond ASCII as RFC 5987 has it. RFC 7578 forbids it in forms, yet .NET sends it, next to
# a `filename` that is no name.
EXTENDED_NAME = re.compile(r";\s*filename\*\s*=\s*\"?utf-8'[^']*'([^;\"\s]+)", re.IGNORECASE)


class UploadTooLarge(Exception):
    """A file, or all of them, are larger than allowed, or they are too many."""


class UploadBroken(Exception):
    """The body is no form of files."""


@dataclass(frozen=True, slots=True)
class Received:
    """A file under the name its sender gave, cleaned."""

    name: str
    file: Path


@dataclass(frozen=True, slots=True)
class Form:
    """The files of an upload, and the collection it names, if it names one."""

    files: list[Received]
    collection: str | None = None


class LeftBehind(Exception):
    """Documents were deleted from the index, but not all that was kept of them could be."""

    def __init__(self, left: Sequence[str]) -> None:
        super().__init__(", ".join(left))


class SharedDocument(Exception):
    """A document of no owner: only those at the machine itself remove it."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of an upload, and the documents of it that are in the knowledge base now."""

    report: Report
    documents: list[StoredDocument]


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """A document as its chunks hold it."""

    document: StoredDocument
    text: str
    parts: list[DocumentBlock]


class Uploads:
    """The files of `data_dir`/uploads, a folder an owner, and their documents in the index."""

    def __init__(
        self,
        data_dir: Path,
        index: Index,
        segmenter: Segmenter,
        *,
        max_bytes: int,
        chunking: Chunking = DEFAULT_CHUNKING,
        loaders: Mapping[str, str] = NO_LOADERS,
    ) -> None:
        self._folder = data_dir / UPLOADS
        self._index, self._segmenter, self._chunking = index, segmenter, chunking
        self._max_bytes, self._loaders = max_bytes, loaders
        self._images = ImageStore(data_dir)
        self._under_way: set[asyncio.Task[object]] = set()
        self._deletions = asyncio.Lock()
        self._reading = asyncio.Semaphore(MAX_READ_AT_ONCE)
        self._reading_large = asyncio.Semaphore(1)

    def go_on(self, work: Coroutine[object, None, T]) -> asyncio.Task[T]:
        """Begins what goes on to its end whoever waits for it, or until `aclose`."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def aclose(self) -> None:
        for task in (under_way := list(self._under_way)):
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    @asynccontextmanager
    async def received(self, body: AsyncIterable[bytes], content_type: str) -> AsyncIterator[Form]:
        """The form and its files, until the block ends. Raises UploadTooLarge, UploadBroken."""
        async with self._staged() as folder:
            yield await receive(body, content_type, folder, self._max_bytes)

    @asynccontextmanager
    async def written(self, name: str, content: bytes) -> AsyncIterator[Received]:
        """A file of this content, until the block ends. Raises UploadTooLarge, UploadBroken."""
        name = clean_name(name)
        if not name:
            raise UploadBroken("is not a file name")
        if len(content) > self._max_bytes:
            raise UploadTooLarge(f"The file {name} is larger than {self._max_bytes:,} bytes.")
        async with self._staged() as folder:
            with create_private(folder / name) as file:
                file.write(content)
            yield Received(name, folder / name)

    @asynccontextmanager
    async def _staged(self) -> AsyncIterator[Path]:
        folder = await asyncio.to_thread(self._staging)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def bring_in(
        self,
        files: Sequence[Received],
        owner: str = "",
        progress: Progress | None = None,
        collection: str = DEFAULT_COLLECTION,
    ) -> Brought:
        """Raises IngestBusy where others do not end within READ_WAIT_S or WAIT_S; IndexUnusable."""
        scope, folder = Scope(owner, (collection,)), self._place(owner, collection)
        known = await self._index.documents(scope)
        work = Ingest(
            self._index,
            self._segmenter,
            known,
            scope,
            progress=progress,
            chunking=self._chunking,
            loaders=self._loaders,
        )
        async with aclosing(work):
            # Not as the only writer: a document that is slow to read holds up no other upload.
            async with self._turn(sum(received.file.stat().st_size for received in files)):
                await work.read_ahead(listed_in(folder, files, owner, known))
            async with writing(self._index.folder, WAIT_S):
                work.known = known = await self._index.documents(scope)
                items = await asyncio.to_thread(listed_in, folder, files, owner, known)
                await asyncio.to_thread(_make_places, folder)
                try:
                    report = await work.all(items)
                finally:  # what the index has got has its file, though a later one failed
                    indexed = _in_index(items, work.report)
                    await asyncio.to_thread(_move, indexed)
        named = {item.path for item in indexed}
        documents = [item for item in await self._index.documents(scope) if item.path in named]
        ids = (document.id for document in documents)
        audit("documents brought in", owner, ids, collection=collection)
        return Brought(report, documents)

    @asynccontextmanager
    async def _turn(self, size: int) -> AsyncIterator[None]:
        """One of those that are read at once. Raises IngestBusy."""
        turns = self._reading_large if size > LARGE_BYTES else self._reading
        try:
            async with asyncio.timeout(READ_WAIT_S):
                await turns.acquire()
        except TimeoutError:
            why = "the documents of other uploads are being read; try again when they are"
            raise IngestBusy(why) from None
        try:
            yield
        finally:
            turns.release()

    async def documents(
        self,
        owner: str = "",
        query: str = "",
        limit: int = 100,
        offset: int = 0,
        collection: str = DEFAULT_COLLECTION,
    ) -> tuple[list[StoredDocument], int]:
        """The owner's documents and the shared ones, those whose source or title has `query`."""
        known = await self._index.documents(Scope(owner, (collection,)))
        documents = await asyncio.to_thread(_matching, known, query.casefold())
        return documents[offset : offset + limit], len(documents)

    async def collections(
        self, owner: str = "", among: Sequence[str] = ()
    ) -> list[StoredCollection]:
        """Those with documents that the owner sees, of these or, where none is named, of all."""
        return await self._index.collections(Scope(owner, tuple(among)))

    async def has(self, collection: str, owner: str = "") -> bool:
        """Whether the owner sees any document of it."""
        return await self._index.count(Scope(owner, (collection,))) > 0

    async def read(
        self, document_id: str, owner: str = "", among: Sequence[str] = ()
    ) -> WholeDocument | None:
        """A document of the owner's or a shared one, as its chunks hold it; None where none is.

        It is looked for in these collections or, where none is named, in all.
        """
        scope = Scope(owner, tuple(among))
        documents = {document.id: document for document in await self._index.documents(scope)}
        if document_id not in documents:
            return None
        names = ["id", "lead", "text", "heading", "page"]
        chunks = await self._index.chunks_of(document_id, names, scope)
        return await asyncio.to_thread(_text_of, documents[document_id], chunks)

    async def image(
        self, image_id: str, owner: str = "", among: Sequence[str] = ()
    ) -> bytes | None:
        """The pixels, encoded, of an image whose document the owner sees; None where none is."""
        scope = Scope(owner, tuple(among))
        if image_id not in await self._index.columns([image_id], [], scope):
            return None
        return await asyncio.to_thread(self._images.content, image_id, scope)

    async def delete(self, document_id: str, owner: str = "", among: Sequence[str] = ()) -> bool:
        """Removes a document of these collections, or of any, and the file it was uploaded as.

        False where there is none. Raises SharedDocument to an owner, LeftBehind, IngestBusy and
        IndexUnusable, with which the document is still listed.
        """
        scope = Scope(owner, tuple(among))
        return await self._delete(scope, lambda document: document.id == document_id)

    async def delete_collection(self, collection: str, owner: str = "") -> bool:
        """Removes the owner's documents of a collection; False where nobody has any there.

        Raises SharedDocument where all are shared ones; else as `delete`.
        """
        return await self._delete(Scope(owner, (collection,)), lambda _: True)

    async def _delete(self, scope: Scope, chosen: Callable[[StoredDocument], bool]) -> bool:
        async with self._deletions, writing(self._index.folder, WAIT_S):
            documents = list(filter(chosen, await self._index.documents(scope)))
            own = [document for document in documents if document.owner == scope.owner]
            if not own:
                if documents:
                    raise SharedDocument
                return False
            left = await self._delete_images(own, scope)
            await self._index.delete([document.id for document in own], scope)
            audit("documents deleted", scope.owner, (document.id for document in own))
            # Still as the only writer: the next one may put new files in these places.
            left += await asyncio.to_thread(self._unlink, own)
            await tidy(self._index)
        if left:
            raise LeftBehind(left)
        return True

    async def _delete_images(self, documents: Sequence[StoredDocument], scope: Scope) -> list[str]:
        """What of them is left."""
        try:
            await asyncio.to_thread(self._images.delete, [document.id for document in documents])
        except IndexUnusable as error:
            log.error("images of deleted documents are left: %s", error)
            return [
                f"the images of {document.source}"
                for document in documents
                if any(
                    IMAGE_KEYWORD in (chunk["keywords"] or ())
                    for chunk in await self._index.chunks_of(document.id, ["keywords"], scope)
                )
            ]
        return []

    def _place(self, owner: str, collection: str) -> Path:
        """The folder of an owner's uploads to a collection.

        No upload's name begins with a dot, and no ingest of a folder reads what does.
        """
        folder = self._folder / owner_folder(owner)
        return folder if collection == DEFAULT_COLLECTION else folder / f".{collection}"

    def _unlink(self, documents: Sequence[StoredDocument]) -> list[str]:
        """Removes what was uploaded: other files, and those of other collections, are not ours.

        What of it is left.
        """
        left = []
        for document in documents:
            file, place = Path(document.path), self._place(document.owner, document.collection)
            if file.parent != place:
                continue
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                log.error("the file of a deleted document is left: %s", error)
                left.append(f"the file of {document.source}")
                continue
            if document.collection != DEFAULT_COLLECTION:
                with suppress(OSError):  # while there are others in it
                    place.rmdir()
        return left

    def _staging(self) -> Path:
        make_private(self._folder)
        for left in self._folder.glob(f"{INCOMING}*"):
            # Whoever is done meanwhile has removed its own.
            with suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > ABANDONED_S:
                    shutil.rmtree(left, ignore_errors=True)
        return Path(mkdtemp(prefix=INCOMING, dir=self._folder))


def uploads_into(retriever: object, settings: StateSettings) -> Uploads | None:
    """Into the index that `retriever` reads; None where that is not one of ours."""
    if not isinstance(retriever, HybridRetriever):
        return None
    return Uploads(
        settings.data_dir,
        retriever.index,
        retriever.segmenter,
        max_bytes=settings.upload_max_bytes,
        chunking=Chunking(settings.chunking, settings.chunk_tokens),
        loaders=settings.loaders_by_suffix,
    )


def _text_of(document: StoredDocument, chunks: Sequence[Mapping[str, Any]]) -> WholeDocument:
    text, parts = "", list[DocumentBlock]()
    for chunk in chunks:
        text += chunk["lead"] if text else ""
        start, text = len(text), text + chunk["text"]
        place = {name: chunk[name] for name in ("id", "heading", "page")}
        parts.append(DocumentBlock(start=start, end=len(text), **place))
    return WholeDocument(document, text, parts)


def _matching(known: Sequence[StoredDocument], query: str) -> list[StoredDocument]:
    return [
        document
        for document in known
        if query in document.source.casefold() or query in document.title.casefold()
    ]


def listed_in(
    folder: Path, files: Sequence[Received], owner: str, known: Sequence[StoredDocument]
) -> list[Listed]:
    """A name that another document of the owner has already gets its folder's name before."""
    own = [document for document in known if document.owner == owner]
    by_path = {document.path: document for document in own}
    sources = {document.source for document in own}
    items = []
    for received in files:
        path, source = str(folder / received.name), received.name
        if (stored := by_path.get(path)) is not None:
            source = stored.source
        elif source in sources:
            source = f"uploads/{source}"
        items.append(Listed(received.file, path, source, stored, owner))
    return items


def _in_index(items: Sequence[Listed], report: Report) -> list[Listed]:
    sources = {*report.added, *report.updated, *report.skipped}
    return [item for item in items if item.source in sources]


def _make_places(folder: Path) -> None:
    for place in reversed([folder, *folder.parents[:2]]):
        make_private(place)


def _move(items: Sequence[Listed]) -> None:
    for item in items:
        item.file.replace(item.path)


async def receive(
    body: AsyncIterable[bytes], content_type: str, folder: Path, max_bytes: int
) -> Form:
    """The form that the body is, its files in `folder`; of two of one name the last counts.

    Raises UploadTooLarge, also for a file of more than `max_bytes`, and UploadBroken.
    """
    if not content_type.lower().startswith("multipart/form-data"):
        raise UploadBroken("send multipart/form-data with the files in the field `files`")
    parser = Parser(content_type, body)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if "maximum" in error.message.lower():
            raise UploadTooLarge(f"The upload is too large: {error.message}") from error
        raise UploadBroken(f"is not multipart/form-data: {error.message}") from error
    try:
        return await asyncio.to_thread(_copied, form, folder, max_bytes)
    finally:
        await form.close()


class Parser(MultiPartParser):
    """Starlette's own, for a body that is bounded and comes to its end.

    What is raised while the body is read makes it close its temporary files.
    """

    def __init__(self, content_type: str, body: AsyncIterable[bytes]) -> None:
        headers = Headers({"content-type": content_type})
        super().__init__(headers, self._all_of(body), max_files=MAX_FILES, max_fields=MAX_FIELDS)
        self._is_whole = False

    def on_end(self) -> None:
        self._is_whole = True

    async def _all_of(self, body: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        total = 0
        async for chunk in body:
            total += len(chunk)
            if total > MAX_TOTAL_BYTES:
                raise UploadTooLarge(f"The upload is larger than {MAX_TOTAL_BYTES:,} bytes.")
            yield chunk
        if not self._is_whole:
            raise UploadBroken("ends before its last boundary")


def clean_name(name: str) -> str:
    """The last part of a path, as one name that any file system takes; empty where none is left."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    last = " ".join(UNSHOWN.sub("", last).split()).lstrip(".")
    stem, dot, suffix = last.rpartition(".")
    if len(last.encode()) <= MAX_NAME_BYTES:
        return last
    suffix = dot + suffix if len(suffix) < 10 else ""
    # Of two names that begin alike neither takes the other's place.
    ending = f"-{hashlib.sha256(last.encode()).hexdigest()[:8]}{suffix}"
    room = MAX_NAME_BYTES - len(ending.encode())
    return (stem or last).encode()[:room].decode(errors="ignore") + ending


def _copied(form: FormData, folder: Path, max_bytes: int) -> Form:
    """The collection and the files, copied to `folder`; other fields are passed over."""
    collection = form.get("collection")
    received: dict[str, Received] = {}
    for number, (field, part) in enumerate(form.multi_items()):
        if field not in FIELDS or not isinstance(part, UploadFile):
            continue
        name = clean_name(_sent_name(part))
        if not name:
            raise UploadBroken("holds a file without a name")
        if (part.size or 0) > max_bytes:
            raise UploadTooLarge(f"The file {name} is larger than {max_bytes:,} bytes.")
        # What has no title of its own is called as its file is.
        place = folder / str(number)
        place.mkdir()
        with create_private(place / name) as file:
            shutil.copyfileobj(part.file, file)
        received[name] = Received(name, place / name)
    if not received:
        raise UploadBroken("holds no file in the field `files`")
    return Form(list(received.values()), collection if isinstance(collection, str) else None)


def _sent_name(part: UploadFile) -> str:
    """`filename*` before `filename`; UTF-8 unless it is something else: Windows sends GBK."""
    name, header = part.filename or "", part.headers["content-disposition"]
    if extended := EXTENDED_NAME.search(header):
        return unquote(extended[1])
    try:
        header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return name.encode("latin-1", "replace").decode("gb18030", "replace")
    return name
