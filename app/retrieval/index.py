"""Index: its protocol, what it stores of a chunk, and how it is opened, renewed and locked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from filelock import AsyncFileLock, Timeout

from app.retrieval.document_paths import DocumentPaths
from app.retrieval.embedder import Embedder, Vectors
from app.state_folder import make_private
from graphs.options import DEFAULT_COLLECTION, Filters, Scope
from graphs.types import Language

FORMAT = "3"
LAST_CHARACTER = "\U0010ffff"
TEXT_COLUMNS: dict[Language, str] = {"en": "text_en", "zh": "text_zh"}
STRINGS = (
    *("id", "document_id", "title", "heading", "source", "text", "lead", "before", "text_en"),
    *("text_zh", "language", "sha256", "added_at", "path", "chunking", "owner", "collection"),
)
NUMBERS = ("position", "first", "last", "chunks", "bytes", "page")
LISTS = ("keywords", "questions")
ANYTHING = Filters()
LANCEDB = "app.retrieval.lancedb"  # by name, for importing it takes a second
LOCK_TIMEOUT_S = 60.0

# What an index raises where its files are damaged or lost, or its server is away.
STORAGE_ERRORS = (OSError, RuntimeError, ValueError)

Row = dict[str, Any]
Encode = Callable[[Sequence[Row], int], list[Row]]
"""Given some of the rows, and how many there are in all."""


class IndexMismatch(Exception):
    """The index was written with other vectors, or by another version of the format."""


class IndexUnusable(IndexMismatch):
    """There is no index, or it is damaged or at a place where none can be."""


class IngestBusy(Exception):
    """Another process is writing to the same knowledge base."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk found, its score, and the positions of the chunks that are returned with it."""

    id: str
    document_id: str
    title: str
    heading: str
    source: str
    text: str
    page: int | None
    position: int
    first: int
    last: int
    score: float


HIT_COLUMNS = [field.name for field in fields(Hit) if field.name != "score"]


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """`added_at` is UTC in ISO 8601; `path` and `bytes` are those of its file, if it has one."""

    id: str
    source: str
    path: str
    title: str
    sha256: str
    chunks: int
    bytes: int
    added_at: str
    language: str = ""
    chunking: str = ""
    owner: str = ""
    collection: str = DEFAULT_COLLECTION


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A named set of documents, and how much is in it."""

    name: str
    documents: int = 0
    chunks: int = 0


DOCUMENT_COLUMNS = ["document_id", *(field.name for field in fields(StoredDocument)[1:])]


class Index(Protocol):
    """Chunks by words and by meaning. All methods are safe beside other readers and writers.

    What is read or deleted lies in the `scope` that a method is given. Failures to read or write
    are STORAGE_ERRORS or IndexUnusable.
    """

    @property
    def embedder(self) -> Embedder: ...

    @property
    def folder(self) -> Path:
        """This machine's own folder of the index; beside it lie the lock and the caches."""

    @property
    def remedy(self) -> str:
        """The remedy shown to a user who cannot search it."""

    async def put(self, rows: Sequence[Row]) -> None:
        """Stores whole documents: their old chunks go, these come; a crash leaves old or new."""

    async def delete(self, document_ids: Sequence[str], scope: Scope) -> int:
        """Removes documents and says how many of them there were."""

    async def tidy(self) -> None:
        """Brings new chunks into the search structures and drops what no reader needs."""

    async def documents(self, scope: Scope) -> list[StoredDocument]:
        """Every document, ordered by source."""

    async def collections(self, scope: Scope) -> list[StoredCollection]:
        """Those that have documents, ordered by name."""

    async def count(self, scope: Scope) -> int:
        """How many chunks there are."""

    async def probe(self) -> None:
        """Reads a stored chunk, if there is any; fails as a search does that cannot read."""

    async def has(self, keyword: str) -> bool:
        """Whether any owner has a chunk with this keyword."""

    async def size(self) -> tuple[int, int] | None:
        """Documents and chunks of all owners; None where counting them costs too much."""

    async def search_words(
        self,
        words: str,
        language: Language,
        limit: int,
        scope: Scope,
        filters: Filters = ANYTHING,
    ) -> list[Hit]:
        """BM25 over the language's own column; `words` as `segment` prepares them."""

    async def search_vector(
        self,
        vector: Vectors,
        language: Language | None,
        limit: int,
        scope: Scope,
        filters: Filters = ANYTHING,
    ) -> list[Hit]:
        """Nearest chunks by cosine; `language` None compares with those of both languages."""

    async def columns(
        self, ids: Sequence[str], names: Sequence[str], scope: Scope
    ) -> dict[str, Row]:
        """These columns of these chunks, by id; deleted chunks are left out."""

    async def chunks_of(self, document_id: str, names: Sequence[str], scope: Scope) -> list[Row]:
        """These columns of a document's chunks, in reading order; none of one not seen."""


async def open_index(folder: Path, embedder: Embedder, url: str = "", token: str = "") -> Index:
    """The index, empty where there is none yet; `folder` is this machine's own in either case.

    Raises IndexMismatch where another embedder or format wrote it, IndexUnusable.
    """
    index: Index
    if not url:
        lance = await asyncio.to_thread(import_module, LANCEDB)
        index = await lance.LanceIndex.open(folder, embedder)
        return index
    await asyncio.to_thread(make_folder, folder.parent)
    index = await _milvus().MilvusIndex.open(url, token, embedder, folder)
    return index


def embedder_of(folder: Path, url: str = "", token: str = "") -> str:
    """The name of the embedder that wrote the index; empty where there is none yet.

    Blocks. Raises IndexUnusable.
    """
    if not url:
        return str(import_module(LANCEDB).embedder_of(folder))
    make_folder(folder.parent)  # Milvus Lite makes none
    return str(_milvus().embedder_of(url, token))


async def renew_index(
    folder: Path, embedder: Embedder, encode: Encode, url: str = "", token: str = ""
) -> int:
    """Writes every row anew as `encode` makes it, and counts them. Raises IndexUnusable."""
    if not url:
        return int(await import_module(LANCEDB).renew(folder, embedder, encode))
    return int(await asyncio.to_thread(_milvus().renew, url, token, embedder, encode))


def _milvus() -> Any:
    """The adapter, by name: its client is an extra."""
    try:
        return import_module("app.retrieval.milvus")
    except ModuleNotFoundError as error:
        raise IndexUnusable(
            "SELFCRAG_INDEX_URL names a Milvus, whose client is not installed:"
            " pip install 'self-crag[milvus]'"
        ) from error


@asynccontextmanager
async def writing(folder: Path, wait_s: float | None = None) -> AsyncIterator[None]:
    """The right to write to the index in `folder`, which one process at a time has.

    Raises IngestBusy after `wait_s`, IndexUnusable.
    """
    timeout = LOCK_TIMEOUT_S if wait_s is None else wait_s
    # Without an executor: whoever waited in a thread would keep it from those who search.
    lock = AsyncFileLock(
        lock_file(folder), timeout, mode=0o600, thread_local=False, run_in_executor=False
    )
    try:
        await lock.acquire()
    except Timeout as error:
        raise IngestBusy(
            "another process is writing to this knowledge base; try again when it has ended"
        ) from error
    except OSError as error:
        raise IndexUnusable(f"{lock.lock_file} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        await lock.release()


def lock_file(folder: Path) -> Path:
    make_folder(folder.parent)
    return folder.with_name(folder.name + ".lock")


def with_kept_paths(rows: Iterable[Row], paths: DocumentPaths) -> list[Row]:
    return [row | {"path": paths.stored(row.get("path", ""))} for row in rows]


def completed(row: Row) -> Row:
    """The row with what it lacks: shared with everyone, returned as it was cut."""
    missing: Row = dict.fromkeys(("owner", "path", "chunking", "lead", "before"), "")
    missing |= {"first": row["position"], "last": row["position"]}
    missing["collection"] = DEFAULT_COLLECTION
    return missing | row


def stored_documents(rows: Iterable[Sequence[Any]], paths: DocumentPaths) -> list[StoredDocument]:
    """From the values of DOCUMENT_COLUMNS, ordered by source; paths are those of this machine."""
    documents = [StoredDocument(*row) for row in rows]
    at = [paths.here(document.path, document.owner) for document in documents]
    named = [
        document if document.path == path else replace(document, path=path)
        for document, path in zip(documents, at, strict=True)
    ]
    return sorted(named, key=lambda document: document.source)


def hit_of(row: Row, score: float) -> Hit:
    return Hit(**{column: row[column] for column in HIT_COLUMNS}, score=float(score))


def check(place: str, embedder: Embedder | None, written: dict[str, str]) -> None:
    """Raises IndexMismatch where another embedder, if one is given, or another version wrote it."""
    by = ""
    if embedder is not None and written.get("embedder") != embedder.name:
        by = (
            f"with the embedder {written.get('embedder', 'of an unknown name')},"
            f" these settings choose {embedder.name}"
        )
    elif written.get("format") != FORMAT:
        by = "by another version of self-crag"
    if by:
        raise IndexMismatch(
            f"The index in {place} was written {by}. Run `selfcrag ingest --reindex` to renew it;"
            " no document has to be read again."
        )


def make_folder(folder: Path) -> None:
    """Raises IndexUnusable where it cannot be."""
    try:
        make_private(folder)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise IndexUnusable(
            f"The folder {folder} cannot be used for the knowledge base: {reason}."
            " Name another one by --data-dir or SELFCRAG_DATA_DIR."
        ) from error


@dataclass(frozen=True, slots=True)
class Dialect:
    """A language of conditions: `values` and `has_any` take the place of a list of literals."""

    quote: Callable[[str], str]
    values: str
    has_any: str

    def among(self, column: str, values: Sequence[str]) -> str:
        return f"{column} in {self.values.format(self._listed(values))}"

    def condition(
        self, scope: Scope, filters: Filters = ANYTHING, language: Language | None = None
    ) -> str:
        """What may be seen, what the run filters, and this language."""
        parts = [self.among("owner", scope.owners)]
        if scope.collections:
            parts.append(self.among("collection", scope.collections))
        # Both are asked where both are given, and then may have nothing in common.
        languages = {language, filters.language} - {None}
        parts += [self.among("language", [str(given)]) for given in languages]
        if filters.document_ids:
            parts.append(self.among("document_id", filters.document_ids))
        if filters.sources:
            parts.append(f"({' or '.join(map(self._source, filters.sources))})")
        if filters.keywords:
            parts.append(self.has_any.format(self._listed(filters.keywords)))
        return " and ".join(parts)

    def having(self, keyword: str) -> str:
        return self.has_any.format(self.quote(keyword))

    def _listed(self, values: Sequence[str]) -> str:
        return ", ".join(map(self.quote, values))

    def _source(self, source: str) -> str:
        """Sources that start with it, as a range, or match it as a glob."""
        start, end = self.quote(source), self.quote(source + LAST_CHARACTER)
        condition = f"source >= {start} and source < {end}"
        if {"*", "?"} & set(source):
            condition = f"({condition}) or source like {self.quote(_like(source))}"
        return f"({condition})"


def _like(glob: str) -> str:
    """`*` and `?` as LIKE says them; what LIKE would read as more than itself is escaped."""
    for sign in "\\%_":
        glob = glob.replace(sign, f"\\{sign}")
    return glob.replace("*", "%").replace("?", "_")


LANCE = Dialect(
    lambda value: "'" + value.replace("'", "''") + "'", "({})", "array_has_any(keywords, [{}])"
)
"""DataFusion's SQL."""
MILVUS = Dialect(
    lambda value: json.dumps(value, ensure_ascii=False),
    "[{}]",
    "array_contains_any(keywords, [{}])",
)
