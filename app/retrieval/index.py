"""The knowledge base on disk: one LanceDB table of chunks.

A document's facts stand in each of its chunks, so replacing a document is one commit of one
table: a crash leaves the old chunks or the new ones.
"""

from collections.abc import Iterator, Sequence
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
FORMAT = "1"
# Below this many chunks an exact scan is fast enough and misses nothing.
VECTOR_INDEX_FROM = 50_000
# Readers may still be in the middle of a version this old when it is cleaned away.
KEEP_VERSIONS = timedelta(minutes=10)
TEXT_COLUMNS: dict[Language, str] = {"en": "text_en", "zh": "text_zh"}
HIT_COLUMNS = ["id", "document_id", "title", "heading", "source", "text"]
DOCUMENT_COLUMNS = ["document_id", "source", "title", "sha256", "chunks", "bytes", "added_at"]


class IndexMismatch(Exception):
    """The index on disk was written with other vectors, or by another version of the format."""


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
    """`added_at` is the UTC time in ISO 8601, `bytes` the size of the file."""

    id: str
    source: str
    title: str
    sha256: str
    chunks: int
    bytes: int
    added_at: str


def schema(embedder_name: str, dimensions: int) -> pa.Schema:
    text, number = pa.string(), pa.int64()
    fields = dict.fromkeys(("id", "document_id", "title", "heading", "source", "text"), text)
    fields |= dict.fromkeys(("text_en", "text_zh", "language", "sha256", "added_at"), text)
    fields |= dict.fromkeys(("position", "chunks", "bytes"), number)
    fields["vector"] = pa.list_(pa.float32(), dimensions)
    return pa.schema(fields, metadata={"embedder": embedder_name, "format": FORMAT})


class Index:
    """Chunks by words and by meaning. All methods are safe beside other readers and writers."""

    def __init__(self, table: lancedb.AsyncTable, embedder: Embedder, folder: Path) -> None:
        self._table = table
        self.embedder = embedder
        self.folder = folder

    @classmethod
    async def open(cls, folder: Path, embedder: Embedder) -> "Index":
        """The index in `folder`, empty where there is none yet.

        Raises IndexMismatch where it was written with another embedder.
        """
        table = await _open_table(folder, embedder)
        found = (await table.schema()).metadata or {}
        written = {key.decode(): value.decode() for key, value in found.items()}
        if (written.get("embedder"), written.get("format")) != (embedder.name, FORMAT):
            raise IndexMismatch(
                f"The index in {folder} was written with the embedding table"
                f" {written.get('embedder', 'of an unknown name')}, this installation uses"
                f" {embedder.name}. Run `selfcrag ingest --reindex` to renew it; no document"
                " has to be read again."
            )
        return cls(table, embedder, folder)

    async def put(self, rows: Sequence[dict[str, Any]]) -> None:
        """Stores whole documents: in one commit their old chunks go and these come."""
        if not rows:
            return
        named = ", ".join(f"'{key}'" for key in sorted({row["document_id"] for row in rows}))
        data = pa.Table.from_pylist(list(rows), schema=await self._table.schema())
        merge = self._table.merge_insert("id").when_matched_update_all()
        merge = merge.when_not_matched_insert_all()
        await merge.when_not_matched_by_source_delete(f"document_id IN ({named})").execute(data)

    async def delete(self, document_ids: Sequence[str]) -> int:
        """Removes documents and says how many of them there were."""
        known = {document.id for document in await self.documents()}
        named = ", ".join(f"'{key}'" for key in document_ids if key in known)
        if named:
            await self._table.delete(f"document_id IN ({named})")
        return len(known & set(document_ids))

    async def tidy(self) -> None:
        """Brings new chunks into the search structures and drops what no reader needs."""
        rows = await self._table.count_rows()
        if rows >= VECTOR_INDEX_FROM and "vector" not in await _indexed(self._table):
            await self._table.create_index("vector", config=IvfFlat(distance_type="l2"))
        await self._table.optimize(cleanup_older_than=KEEP_VERSIONS)

    async def documents(self) -> list[StoredDocument]:
        query = self._table.query().where("position = 0").select(DOCUMENT_COLUMNS)
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
    """Every row without its vector, whatever embedder wrote it: what a renewal starts from."""
    database = await lancedb.connect_async(folder)
    table = await database.open_table(TABLE)
    kept = [field.name for field in await table.schema() if field.name != "vector"]
    rows: pa.Table = await table.query().select(kept).to_arrow()
    return (row for batch in rows.to_batches(max_chunksize=512) for row in batch.to_pylist())


async def replace_all(
    folder: Path, embedder: Embedder, batches: Iterator[list[dict[str, Any]]]
) -> None:
    """Writes a new table over the old one in a single commit."""
    layout = schema(embedder.name, embedder.dimensions)
    data = (pa.RecordBatch.from_pylist(rows, schema=layout) for rows in batches)
    database = await lancedb.connect_async(folder)
    reader = pa.RecordBatchReader.from_batches(layout, data)
    table = await database.create_table(TABLE, reader, schema=layout, mode="overwrite")
    await _index_text(table)


async def _open_table(folder: Path, embedder: Embedder) -> lancedb.AsyncTable:
    database = await lancedb.connect_async(folder, read_consistency_interval=timedelta(0))
    if TABLE in (await database.list_tables()).tables:
        table = await database.open_table(TABLE)
    else:
        layout = schema(embedder.name, embedder.dimensions)
        table = await database.create_table(TABLE, schema=layout, exist_ok=True)
    if not set(TEXT_COLUMNS.values()) <= await _indexed(table):
        await _index_text(table)
    return table


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
