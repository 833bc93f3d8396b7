"""Index in one folder: a LanceDB table of chunks. A commit of the table is all or nothing."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.retrieval import index
from app.retrieval.document_paths import DocumentPaths
from app.retrieval.embedder import Embedder, Vectors
from app.retrieval.index import ANYTHING, LANCE, Hit, IndexMismatch, IndexUnusable, Row
from app.state_folder import what_is_unfinished
from graphs.options import DEFAULT_COLLECTION, Filters, Scope
from graphs.types import Language

# LanceDB imports the client of a remote catalogue, of which a local folder needs no more than the
# types. Its package is entered without running it: that builds hundreds of calls, for most of a
# second; whoever did call one would import its module as usual.
if (spec := find_spec("lance_namespace_urllib3_client")) is not None:
    sys.modules.setdefault(spec.name, module_from_spec(spec))

import lancedb
from lancedb.index import FTS, Bitmap, BTree, IvfFlat, LabelList

TABLE = "chunks"
COLLECTION = "collection"
# Below this many chunks an exact scan is fast enough and misses nothing.
VECTOR_INDEX_FROM = 50_000
# Readers may still be in the middle of a version this old when it is cleaned away.
KEEP_VERSIONS = timedelta(minutes=10)
# The share of rows, and the number of small files, that may lie beside the search structures.
OUTSIDE, MAX_PIECES = 0.01, 20
# What was replaced stays on disk with the versions that had it: so many that could be cleaned away.
MAX_VERSIONS = 50
# Most that may be kept in memory of search structures and of files' heads; LanceDB's own bounds
# are 6 GB and 1 GB, and what former versions had stays until they are reached.
CACHED_INDEX_BYTES, CACHED_HEAD_BYTES = 1 << 30, 1 << 27
RENEWED_ROWS = 512


class LanceIndex:
    """The `Index` of one machine; several processes may read it while one writes."""

    def __init__(
        self,
        table: lancedb.AsyncTable,
        caches: lancedb.Session,
        embedder: Embedder,
        folder: Path,
    ) -> None:
        self._table, self.caches = table, caches
        self.embedder = embedder
        self.folder = folder
        self._paths = DocumentPaths(folder.parent)
        # Those who page and search in the list ask for the same one again and again.
        self._last_list: tuple[object, list[index.StoredDocument]] = (None, [])

    @classmethod
    async def open(cls, folder: Path, embedder: Embedder) -> "LanceIndex":
        if unfinished := what_is_unfinished(folder.parent):
            raise IndexUnusable(f"{unfinished[0].upper()}{unfinished[1:]}.")
        for needed in (folder.parent, folder):
            await asyncio.to_thread(index.make_folder, needed)
        with _storage(folder):
            database, caches = await _connected(folder)
            if TABLE in (await database.list_tables()).tables:
                table = await database.open_table(TABLE)
            else:
                table = await database.create_table(TABLE, schema=schema(embedder), exist_ok=True)
            index.check(str(folder), embedder, await _written(table))
            if not set(index.TEXT_COLUMNS.values()) <= await indexed(table):
                await index_columns(table)
        if COLLECTION not in (await table.schema()).names:
            await _add_collections(table, folder)
        return cls(table, caches, embedder, folder)

    @property
    def remedy(self) -> str:
        if not (self.folder / f"{TABLE}.lance").is_dir():
            return "the index is missing: run `selfcrag ingest PATH` to make a new one"
        return (
            "the index cannot be searched; `selfcrag ingest --reindex` renews it, and where it"
            " cannot, delete its folder and run `selfcrag ingest PATH`"
        )

    async def put(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        data = await asyncio.to_thread(
            _table_of, index.with_kept_paths(rows, self._paths), self.embedder
        )
        replaced = LANCE.among("document_id", sorted({row["document_id"] for row in rows}))
        with _storage(self.folder):
            await self._check()
            # Texts without any known word have no vector.
            if not await self._table.count_rows(replaced):
                await self._table.add(data, on_bad_vectors="null")
                return
            merge = self._table.merge_insert("id").when_matched_update_all()
            merge = merge.when_not_matched_insert_all()
            merge = merge.when_not_matched_by_source_delete(replaced)
            await merge.execute(data, on_bad_vectors="null")

    async def delete(self, document_ids: Sequence[str], scope: Scope) -> int:
        if not document_ids:
            return 0
        named = LANCE.condition(scope, Filters.model_construct(document_ids=list(document_ids)))
        with _storage(self.folder):
            documents = int(await self._table.count_rows(f"{named} and position = 0"))
            if documents:
                await self._table.delete(named)
        return documents

    async def tidy(self) -> None:
        with _storage(self.folder):
            await index_vectors(self._table)
            if await is_worn(self._table, self.folder):
                await self._table.optimize(cleanup_older_than=KEEP_VERSIONS)
                database, self.caches = await _connected(self.folder)
                self._table = await database.open_table(TABLE)

    async def documents(self, scope: Scope) -> list[index.StoredDocument]:
        seen = f"position = 0 and {LANCE.condition(scope)}"
        with _storage(self.folder):
            # Asked for before the rows are: if they change meanwhile, the list is made again.
            version = (await self._table.version(), seen)
            last = self._last_list
            if last[0] != version:
                rows = (
                    await self._table.query().where(seen).select(index.DOCUMENT_COLUMNS).to_arrow()
                )
                last = self._last_list = (
                    version,
                    await asyncio.to_thread(_documents, rows, self._paths),
                )
        return list(last[1])

    async def collections(self, scope: Scope) -> list[index.StoredCollection]:
        seen = f"position = 0 and {LANCE.condition(scope)}"
        with _storage(self.folder):
            rows = await self._table.query().where(seen).select([COLLECTION, "chunks"]).to_arrow()
        counted = rows.group_by(COLLECTION).aggregate([("chunks", "count"), ("chunks", "sum")])
        columns = (COLLECTION, "chunks_count", "chunks_sum")
        stored = zip(*(counted[name].to_pylist() for name in columns), strict=True)
        return [index.StoredCollection(*row) for row in sorted(stored)]

    async def count(self, scope: Scope) -> int:
        return int(await self._table.count_rows(LANCE.condition(scope)))

    async def probe(self) -> None:
        # Counts come from what is in memory already, long after the files are gone.
        with _storage(self.folder):
            await self._table.query().select(["id", "text"]).limit(1).to_list()

    async def has(self, keyword: str) -> bool:
        with _storage(self.folder):
            query = self._table.query().where(LANCE.having(keyword)).select(["id"]).limit(1)
            return bool(await query.to_list())

    async def size(self) -> tuple[int, int]:
        with _storage(self.folder):
            documents = await self._table.count_rows("position = 0")
            return documents, await self._table.count_rows()

    async def search_words(
        self,
        words: str,
        language: Language,
        limit: int,
        scope: Scope,
        filters: Filters = ANYTHING,
    ) -> list[Hit]:
        if not words.strip():
            return []
        column = index.TEXT_COLUMNS[language]
        query = await self._table.search(words, query_type="fts", fts_columns=[column])
        query = query.where(LANCE.condition(scope, filters)).select([*index.HIT_COLUMNS, "_score"])
        return [index.hit_of(row, row["_score"]) for row in await query.limit(limit).to_list()]

    async def search_vector(
        self,
        vector: Vectors,
        language: Language | None,
        limit: int,
        scope: Scope,
        filters: Filters = ANYTHING,
    ) -> list[Hit]:
        if not vector.any():
            return []
        await self._check()
        query = self._table.query().nearest_to(vector).distance_type("l2")
        query = query.where(LANCE.condition(scope, filters, language)).select(
            [*index.HIT_COLUMNS, "_distance"]
        )
        # Of unit vectors the squared distance is 2 - 2 · cosine.
        rows = await query.limit(limit).to_list()
        return [index.hit_of(row, 1.0 - row["_distance"] / 2) for row in rows]

    async def columns(
        self, ids: Sequence[str], names: Sequence[str], scope: Scope
    ) -> dict[str, Row]:
        if not ids:
            return {}
        condition = f"{LANCE.among('id', ids)} and {LANCE.condition(scope)}"
        rows = await self._table.query().where(condition).select(["id", *names]).to_list()
        return {row["id"]: row for row in rows}

    async def chunks_of(self, document_id: str, names: Sequence[str], scope: Scope) -> list[Row]:
        condition = LANCE.condition(scope, Filters.model_construct(document_ids=[document_id]))
        rows = await self._table.query().where(condition).select(["position", *names]).to_list()
        return sorted(rows, key=lambda row: int(row["position"]))

    async def _check(self) -> None:
        """Raises IndexMismatch where all was renewed for another embedder since it was opened."""
        try:
            index.check(str(self.folder), self.embedder, await _written(self._table))
        except IndexMismatch as error:
            raise IndexMismatch(
                "The index was renewed for another embedder or another version of self-crag"
                " while this process ran: restart the service."
            ) from error


async def _connected(folder: Path) -> tuple[lancedb.AsyncConnection, lancedb.Session]:
    """With caches of its own, which are empty."""
    caches = lancedb.Session(CACHED_INDEX_BYTES, CACHED_HEAD_BYTES)
    database = await lancedb.connect_async(
        folder, read_consistency_interval=timedelta(0), session=caches
    )
    return database, caches


async def _existing(folder: Path) -> lancedb.AsyncTable | None:
    database = await lancedb.connect_async(folder)
    is_there = TABLE in (await database.list_tables()).tables
    return await database.open_table(TABLE) if is_there else None


async def inspected(folder: Path) -> list[index.StoredDocument]:
    """The documents of all owners, after every row and the words of both languages were read.

    Raises IndexMismatch where another version wrote the index, IndexUnusable.
    """
    with _storage(folder):
        if (table := await _existing(folder)) is None:
            return []
        index.check(str(folder), None, await _written(table))
        rows = 0
        async for batch in await table.query().to_batches():
            rows += batch.num_rows
        for column in await indexed(table) & set(index.TEXT_COLUMNS.values()):
            words = await table.search("a", query_type="fts", fts_columns=[column])
            await words.limit(1).to_list()
        known = set((await table.schema()).names)
        columns = [name for name in index.DOCUMENT_COLUMNS if name in known]
        heads = await table.query().where("position = 0").select(columns).to_arrow()
    documents = await asyncio.to_thread(_documents, heads, DocumentPaths(folder.parent))
    if rows != (chunks := sum(document.chunks for document in documents)):
        raise IndexUnusable(
            f"The index in {folder} holds {rows} chunks where its documents have {chunks}: restore"
            " a backup, or delete that folder and run `selfcrag ingest PATH`."
        )
    return documents


async def ids_with(folder: Path, keyword: str) -> list[str]:
    """Ids of the chunks of all owners that have the keyword. Raises IndexUnusable."""
    with _storage(folder):
        if (table := await _existing(folder)) is None:
            return []
        rows = await table.query().where(LANCE.having(keyword)).select(["id"]).to_list()
    return [row["id"] for row in rows]


def embedder_of(folder: Path) -> str:
    """The name of the embedder that wrote the index, empty without one. Raises IndexUnusable."""
    with _storage(folder):
        if not (folder / f"{TABLE}.lance").is_dir():
            return ""
        written = lancedb.connect(folder).open_table(TABLE).schema.metadata or {}
    return str(written.get(b"embedder", b"").decode())


async def renew(folder: Path, embedder: Embedder, encode: index.Encode) -> int:
    """Writes every row anew over the old table, in one commit, and counts them.

    Raises IndexUnusable.
    """
    if not (folder / f"{TABLE}.lance").is_dir():
        raise IndexUnusable(
            f"There is no index in {folder} to renew. Run `selfcrag ingest PATH` to make one."
        )
    with _storage(folder):
        rows = await asyncio.to_thread(_renewed, folder, embedder, encode)
        database = await lancedb.connect_async(folder)
        table = await database.open_table(TABLE)
        await index_columns(table)
        await index_vectors(table)
    return rows


def _renewed(folder: Path, embedder: Embedder, encode: index.Encode) -> int:
    database = lancedb.connect(folder)
    old = database.open_table(TABLE)
    columns = [
        field.name
        for field in old.schema
        if field.name in {*index.STRINGS, *index.NUMBERS, *index.LISTS}
    ]
    layout = schema(embedder)
    # The versions of before stay readable until the new one is committed.
    batches, total = old.search().select(columns).to_batches(RENEWED_ROWS), old.count_rows()
    data = (
        _table_of(
            encode(list(map(index.completed, batch.to_pylist())), total), embedder
        ).to_batches()[0]
        for batch in batches
        if batch.num_rows
    )
    reader = pa.RecordBatchReader.from_batches(layout, data)
    new = database.create_table(
        TABLE, reader, schema=layout, mode="overwrite", on_bad_vectors="null"
    )
    return int(new.count_rows())


async def _add_collections(table: lancedb.AsyncTable, folder: Path) -> None:
    """For an index written before there were collections: all of it is in the default one."""
    async with index.writing(folder):
        with _storage(folder):
            if COLLECTION not in (await table.schema()).names:
                await table.add_columns({COLLECTION: f"'{DEFAULT_COLLECTION}'"})
                await table.create_index(COLLECTION, config=Bitmap())


@contextmanager
def _storage(folder: Path) -> Iterator[None]:
    try:
        yield
    except index.STORAGE_ERRORS as error:
        # Without the place in LanceDB's sources, which follows after the reason.
        reason = str(error).split(", /")[0].removeprefix("lance error: ")[:100]
        raise IndexUnusable(
            f"The index in {folder} cannot be used ({reason}). If it is damaged, restore"
            " a backup or delete that folder and run `selfcrag ingest PATH` to read the documents"
            " again; else see to it that there is room on the disk and the folder may be written."
        ) from error


async def _written(table: lancedb.AsyncTable) -> dict[str, str]:
    metadata: dict[bytes, bytes] = (await table.schema()).metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def _table_of(rows: Sequence[Row], embedder: Embedder) -> pa.Table:
    table = pa.Table.from_pylist(list(map(index.completed, rows)), schema=schema(embedder))
    return table.combine_chunks()


def _documents(rows: pa.Table, paths: DocumentPaths) -> list[index.StoredDocument]:
    """Column by column, for there may be a hundred thousand."""
    known = [name for name in index.DOCUMENT_COLUMNS if name in rows.column_names]
    columns = [rows[name].to_pylist() for name in known]
    return index.stored_documents(zip(*columns, strict=True), paths)


def schema(embedder: Embedder) -> pa.Schema:
    fields = dict.fromkeys(index.STRINGS, pa.string()) | dict.fromkeys(index.NUMBERS, pa.int64())
    fields |= dict.fromkeys(index.LISTS, pa.list_(pa.string()))
    fields["terms"] = pa.binary()
    fields["vector"] = pa.list_(pa.float32(), embedder.dimensions)
    return pa.schema(fields, metadata={"embedder": embedder.name, "format": index.FORMAT})


async def indexed(table: lancedb.AsyncTable) -> set[str]:
    return {column for made in await table.list_indices() for column in made.columns}


async def index_columns(table: lancedb.AsyncTable) -> None:
    await table.create_index("text_en", config=FTS(language="English", with_position=False))
    segmented = FTS(
        base_tokenizer="whitespace",
        with_position=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
    )
    await table.create_index("text_zh", config=segmented)
    for column in ("id", "document_id"):
        await table.create_index(column, config=BTree())
    for column in ("owner", COLLECTION, "language"):
        await table.create_index(column, config=Bitmap())
    await table.create_index("keywords", config=LabelList())


async def index_vectors(table: lancedb.AsyncTable) -> None:
    many = await table.count_rows() >= VECTOR_INDEX_FROM
    if many and "vector" not in await indexed(table):
        await table.create_index("vector", config=IvfFlat(distance_type="l2"))


async def is_worn(table: lancedb.AsyncTable, folder: Path) -> bool:
    """Whether so much lies beside the search structures, or is left, that users would feel it.

    Renewing them costs seconds where there are many rows; a few new ones are read as they are.
    """
    stats: Any = await table.stats()  # a dict, whatever its annotation says
    words = await table.index_stats(f"{index.TEXT_COLUMNS['en']}_idx")
    rows, pieces = stats["num_rows"], stats["fragment_stats"]["num_small_fragments"]
    outside = rows if words is None else words.num_unindexed_rows
    if outside > OUTSIDE * rows or pieces > MAX_PIECES:
        return True
    return await asyncio.to_thread(old_versions, folder) > MAX_VERSIONS


def old_versions(folder: Path) -> int:
    """How many versions no reader needs any more; each has a file of its own."""
    before = time.time() - KEEP_VERSIONS.total_seconds()
    try:
        with os.scandir(folder / f"{TABLE}.lance" / "_versions") as files:
            return sum(file.stat().st_mtime < before for file in files)
    except FileNotFoundError:  # another process cleans, or the index is gone
        return 0
