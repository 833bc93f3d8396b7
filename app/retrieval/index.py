"""The knowledge base on disk: one LanceDB table of chunks.

A document's facts stand in each of its chunks, so replacing a document is one commit of one
table: a crash leaves the old chunks or the new ones.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.index import FTS, IvfFlat

from app.retrieval.embed import Embedder, Vectors
from graphs.types import Language

TABLE = "chunks"
FORMAT = "2"
# Below this many chunks an exact scan is fast enough and misses nothing.
VECTOR_INDEX_FROM = 50_000
# Readers may still be in the middle of a version this old when it is cleaned away.
KEEP_VERSIONS = timedelta(minutes=10)
TEXT_COLUMNS: dict[Language, str] = {"en": "text_en", "zh": "text_zh"}
HIT_COLUMNS = ["id", "document_id", "title", "heading", "source", "text"]
DOCUMENT_COLUMNS = ["document_id", "source", "path", "title", "sha256", "chunks", "bytes"]
DOCUMENT_COLUMNS += ["added_at"]
# What LanceDB raises where files are damaged, lost, or cannot be written.
STORAGE_ERRORS = (OSError, RuntimeError, ValueError)


class IndexMismatch(Exception):
    """The index on disk was written with other vectors, or by another version of the format."""


class IndexUnusable(IndexMismatch):
    """There is no index, or it is damaged or at a place where none can be."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk found by one of the two searches, and that search's own score."""

    id: str
    document_id: str
    title: str
    heading: str
    source: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """`added_at` is the UTC time in ISO 8601, `bytes` the size of the file.

    `path` is the file's absolute path; empty where an older version did not keep it.
    """

    id: str
    source: str
    path: str
    title: str
    sha256: str
    chunks: int
    bytes: int
    added_at: str


def schema(embedder: Embedder) -> pa.Schema:
    text, number = pa.string(), pa.int64()
    fields = dict.fromkeys(("id", "document_id", "title", "heading", "source", "text"), text)
    fields |= dict.fromkeys(("text_en", "text_zh", "language", "sha256", "added_at", "path"), text)
    fields |= dict.fromkeys(("position", "chunks", "bytes"), number)
    fields["vector"] = pa.list_(pa.float32(), embedder.dimensions)
    return pa.schema(fields, metadata={"embedder": embedder.name, "format": FORMAT})


class Index:
    """Chunks by words and by meaning. All methods are safe beside other readers and writers."""

    def __init__(self, table: lancedb.AsyncTable, embedder: Embedder, folder: Path) -> None:
        self._table = table
        self.embedder = embedder
        self.folder = folder

    @classmethod
    async def open(cls, folder: Path, embedder: Embedder) -> "Index":
        """The index in `folder`, empty where there is none yet.

        Raises IndexMismatch where it was written with another embedder or in another format,
        IndexUnusable where it cannot be read.
        """
        for needed in (folder.parent, folder):
            await asyncio.to_thread(make_folder, needed)
        with _storage(folder):
            table = await _open_table(folder, embedder)
            _check(folder, embedder, (await table.schema()).metadata or {})
            if not set(TEXT_COLUMNS.values()) <= await _indexed(table):
                await _index_text(table)
        return cls(table, embedder, folder)

    @property
    def is_lost(self) -> bool:
        """Whether its files are gone since it was opened."""
        return not (self.folder / f"{TABLE}.lance").is_dir()

    async def put(self, rows: Sequence[dict[str, Any]]) -> None:
        """Stores whole documents: in one commit their old chunks go and these come."""
        if not rows:
            return
        named = ", ".join(f"'{key}'" for key in sorted({row["document_id"] for row in rows}))
        data = pa.Table.from_pylist(list(rows), schema=schema(self.embedder))
        merge = self._table.merge_insert("id").when_matched_update_all()
        merge = merge.when_not_matched_insert_all()
        merge = merge.when_not_matched_by_source_delete(f"document_id IN ({named})")
        with _storage(self.folder):
            # Texts without any known word have none.
            await merge.execute(data, on_bad_vectors="null")

    async def delete(self, document_ids: Sequence[str]) -> int:
        """Removes documents and says how many of them there were."""
        known = {document.id for document in await self.documents()}
        named = ", ".join(f"'{key}'" for key in document_ids if key in known)
        if named:
            with _storage(self.folder):
                await self._table.delete(f"document_id IN ({named})")
        return len(known & set(document_ids))

    async def tidy(self) -> None:
        """Brings new chunks into the search structures and drops what no reader needs."""
        with _storage(self.folder):
            rows = await self._table.count_rows()
            if rows >= VECTOR_INDEX_FROM and "vector" not in await _indexed(self._table):
                await self._table.create_index("vector", config=IvfFlat(distance_type="l2"))
            await self._table.optimize(cleanup_older_than=KEEP_VERSIONS)

    async def documents(self) -> list[StoredDocument]:
        query = self._table.query().where("position = 0").select(DOCUMENT_COLUMNS)
        with _storage(self.folder):
            rows = [dict(row) for row in await query.to_list()]
        return sorted(
            (StoredDocument(id=row.pop("document_id"), **row) for row in rows),
            key=lambda document: document.source,
        )

    async def count(self) -> int:
        """How many chunks there are."""
        return int(await self._table.count_rows())

    async def search_words(self, words: str, language: Language, limit: int) -> list[Hit]:
        """BM25 over the language's own column; `words` as `segment` prepares them."""
        if not words.strip():
            return []
        query = await self._table.search(
            words, query_type="fts", fts_columns=[TEXT_COLUMNS[language]]
        )
        rows = await query.select([*HIT_COLUMNS, "_score"]).limit(limit).to_list()
        return [_hit(row, row["_score"]) for row in rows]

    async def search_vector(
        self, vector: Vectors, language: Language | None, limit: int
    ) -> list[Hit]:
        """Nearest chunks by cosine; `language` None compares with those of both languages."""
        if not vector.any():
            return []
        query = self._table.query().nearest_to(vector).distance_type("l2")
        if language is not None:
            query = query.where(f"language = '{language}'")
        rows = await query.select([*HIT_COLUMNS, "_distance"]).limit(limit).to_list()
        # Of unit vectors the squared distance is 2 - 2 · cosine.
        return [_hit(row, 1.0 - row["_distance"] / 2) for row in rows]


async def stored_chunks(folder: Path) -> Iterator[dict[str, Any]]:
    """Every row without its vector, whatever embedder wrote it: what a renewal starts from.

    Raises IndexUnusable where there is no index or it cannot be read.
    """
    if not (folder / f"{TABLE}.lance").is_dir():
        raise IndexUnusable(
            f"There is no index in {folder} to renew. Run `selfcrag ingest PATH` to make one."
        )
    with _storage(folder):
        database = await lancedb.connect_async(folder)
        table = await database.open_table(TABLE)
        kept = [field.name for field in await table.schema() if field.name != "vector"]
        rows: pa.Table = await table.query().select(kept).to_arrow()
    added = dict.fromkeys({"path"} - set(kept), "")
    batches = rows.to_batches(max_chunksize=512)
    return (added | row for batch in batches for row in batch.to_pylist())


async def replace_all(
    folder: Path, embedder: Embedder, batches: Iterator[list[dict[str, Any]]]
) -> None:
    """Writes a new table over the old one in a single commit."""
    layout = schema(embedder)
    data = (pa.RecordBatch.from_pylist(rows, schema=layout) for rows in batches)
    reader = pa.RecordBatchReader.from_batches(layout, data)
    with _storage(folder):
        database = await lancedb.connect_async(folder)
        table = await database.create_table(
            TABLE, reader, schema=layout, mode="overwrite", on_bad_vectors="null"
        )
        await _index_text(table)


def make_folder(folder: Path) -> None:
    """Raises IndexUnusable where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise IndexUnusable(
            f"The folder {folder} cannot be used for the knowledge base: {reason}."
            " Name another one by --data-dir or SELFCRAG_DATA_DIR."
        ) from error


@contextmanager
def _storage(folder: Path) -> Iterator[None]:
    try:
        yield
    except STORAGE_ERRORS as error:
        # Without the place in LanceDB's sources, which follows after the reason.
        reason = str(error).split(", /")[0].removeprefix("lance error: ")[:100]
        raise IndexUnusable(
            f"The index in {folder} cannot be used ({reason}). If it is damaged, delete that folder"
            " and run `selfcrag ingest PATH` to read the documents again; else see to it that"
            " there is room on the disk and the folder may be written."
        ) from error


def _check(folder: Path, embedder: Embedder, found: dict[bytes, bytes]) -> None:
    written = {key.decode(): value.decode() for key, value in found.items()}
    by = ""
    if written.get("embedder") != embedder.name:
        by = (
            f"with the embedding table {written.get('embedder', 'of an unknown name')},"
            f" this installation uses {embedder.name}"
        )
    elif written.get("format") != FORMAT:
        by = "by another version of self-crag"
    if by:
        raise IndexMismatch(
            f"The index in {folder} was written {by}. Run `selfcrag ingest --reindex` to renew it;"
            " no document has to be read again."
        )


async def _open_table(folder: Path, embedder: Embedder) -> lancedb.AsyncTable:
    database = await lancedb.connect_async(folder, read_consistency_interval=timedelta(0))
    if TABLE in (await database.list_tables()).tables:
        return await database.open_table(TABLE)
    return await database.create_table(TABLE, schema=schema(embedder), exist_ok=True)


async def _indexed(table: lancedb.AsyncTable) -> set[str]:
    return {column for index in await table.list_indices() for column in index.columns}


async def _index_text(table: lancedb.AsyncTable) -> None:
    await table.create_index("text_en", config=FTS(language="English", with_position=False))
    segmented = FTS(
        base_tokenizer="whitespace",
        with_position=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
    )
    await table.create_index("text_zh", config=segmented)


def _hit(row: dict[str, Any], score: float) -> Hit:
    return Hit(**{column: row[column] for column in HIT_COLUMNS}, score=float(score))
