"""The index in a Milvus: many machines may search it, and it may be larger than one of them.

Milvus has no transactions. A document is replaced by writing its new chunks and then deleting the
old: readers may for a moment see both, never neither. A document is known by its chunk of position
0, which is written last, and by its oldest reading: after a crash the next ingest completes it.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from pymilvus import MilvusClient, MilvusException

from app.retrieval.collection import ALIAS, WORDS, as_read, created, stored
from app.retrieval.embedders.static import Embedder, Vectors
from app.retrieval.filters import listed, milvus_condition, milvus_literal
from app.retrieval.index import (
    ANYTHING,
    DOCUMENT_COLUMNS,
    HIT_COLUMNS,
    LISTS,
    NUMBERS,
    STRINGS,
    Encode,
    Hit,
    IndexUnusable,
    Row,
    StoredDocument,
    check,
    hit_of,
    stored_documents,
)
from graphs.options import Filters
from graphs.types import Language

BATCH_ROWS = 512
TIMEOUT_S = 30.0

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # each error is raised as well


class MilvusIndex:
    """The `Index` behind an address; calls block and so go through worker threads."""

    def __init__(self, client: MilvusClient, url: str, embedder: Embedder, folder: Path) -> None:
        self._client = client
        self._url = url
        self.embedder = embedder
        self.folder = folder

    @classmethod
    async def open(cls, url: str, token: str, embedder: Embedder, folder: Path) -> "MilvusIndex":
        """Raises IndexMismatch and IndexUnusable as `open_index` says."""
        return await asyncio.to_thread(cls._open, url, token, embedder, folder)

    @classmethod
    def _open(cls, url: str, token: str, embedder: Embedder, folder: Path) -> "MilvusIndex":
        with _reached(url):
            client = MilvusClient(url, token=token, timeout=TIMEOUT_S)
            if not client.has_collection(ALIAS):
                client.create_alias(created(client, url, embedder), ALIAS)
            check(url, embedder, client.describe_collection(ALIAS)["properties"])
        return cls(client, url, embedder, folder)

    @property
    def remedy(self) -> str:
        return f"the index in {self._url} cannot be searched; see to it that its Milvus runs"

    async def put(self, rows: Sequence[Row]) -> None:
        await asyncio.to_thread(self._put, rows)

    async def delete(self, document_ids: Sequence[str]) -> int:
        return await asyncio.to_thread(self._delete, document_ids)

    async def tidy(self) -> None:
        """Milvus indexes and compacts by itself."""

    async def documents(self) -> list[StoredDocument]:
        return await asyncio.to_thread(self._documents)

    async def count(self) -> int:
        return await asyncio.to_thread(self._count, milvus_condition(ANYTHING))

    async def search_words(
        self, words: str, language: Language, limit: int, filters: Filters = ANYTHING
    ) -> list[Hit]:
        if not words.strip():
            return []
        _, field = WORDS[language]
        condition = milvus_condition(filters, language)
        found = await asyncio.to_thread(self._search, words, field, "BM25", limit, condition)
        # Milvus Lite tells BM25 scores negated.
        return [hit_of(row, abs(score)) for row, score in found if score]

    async def search_vector(
        self, vector: Vectors, language: Language | None, limit: int, filters: Filters = ANYTHING
    ) -> list[Hit]:
        if not vector.any():
            return []
        condition = milvus_condition(filters, language)
        found = await asyncio.to_thread(
            self._search, vector.tolist(), "vector", "IP", limit, condition
        )
        # Exactly 0 is the score of a text without any known word.
        return [hit_of(row, score) for row, score in found if score]

    async def columns(self, ids: Sequence[str], names: Sequence[str]) -> dict[str, Row]:
        if not ids:
            return {}
        wanted = f"id in [{listed(ids, milvus_literal)}] and {milvus_condition(ANYTHING)}"
        rows = await asyncio.to_thread(self._query, wanted, ["id", *names])
        return {row["id"]: row for row in rows}

    def _put(self, rows: Sequence[Row]) -> None:
        # Position 0, by which a document is known, comes last.
        ordered = sorted(rows, key=lambda row: (row["document_id"], -row["position"]))
        with _reached(self._url):
            for at in range(0, len(ordered), BATCH_ROWS):
                batch = [stored(row, self.embedder) for row in ordered[at : at + BATCH_ROWS]]
                self._client.upsert(ALIAS, batch, timeout=TIMEOUT_S)
            for document_id, group in groupby(ordered, key=lambda row: str(row["document_id"])):
                version = next(group)["id"].rpartition("-")[0] or document_id
                old = f"document_id == {milvus_literal(document_id)}"
                old += f" and not (id like {milvus_literal(version + '%')})"
                self._client.delete(ALIAS, filter=old, timeout=TIMEOUT_S)

    def _delete(self, document_ids: Sequence[str]) -> int:
        if not document_ids:
            return 0
        named = milvus_condition(Filters.model_construct(document_ids=list(document_ids)))
        found = {row["document_id"] for row in self._query(named, ["document_id"])}
        if found:
            with _reached(self._url):
                self._client.delete(ALIAS, filter=named, timeout=TIMEOUT_S)
        return len(found)

    def _documents(self) -> list[StoredDocument]:
        seen = f"position == 0 and {milvus_condition(ANYTHING)}"
        readings = sorted(self._query(seen, DOCUMENT_COLUMNS), key=lambda row: row["added_at"])
        oldest = {row["document_id"]: row for row in reversed(readings)}
        return stored_documents([row[name] for name in DOCUMENT_COLUMNS] for row in oldest.values())

    def _count(self, condition: str) -> int:
        with _reached(self._url):
            found = self._client.query(
                ALIAS, filter=condition, output_fields=["count(*)"], timeout=TIMEOUT_S
            )
        return int(found[0]["count(*)"])

    def _query(self, condition: str, names: Sequence[str]) -> list[Row]:
        """All rows, in batches, for a single answer of Milvus is bounded."""
        with _reached(self._url):
            return [row for batch in _batches(self._client, condition, names) for row in batch]

    def _search(
        self, data: object, field: str, metric: str, limit: int, condition: str
    ) -> list[tuple[Row, float]]:
        with _reached(self._url):
            (found,) = self._client.search(
                ALIAS,
                data=[data],
                anns_field=field,
                filter=condition,
                limit=limit,
                search_params={"metric_type": metric},
                output_fields=HIT_COLUMNS,
                timeout=TIMEOUT_S,
            )
        return [(as_read({"id": hit["id"], **hit["entity"]}), hit["distance"]) for hit in found]


def renew(url: str, token: str, embedder: Embedder, encode: Encode) -> int:
    """Writes every row to a new collection, which then takes the old one's place."""
    with _reached(url):
        client = MilvusClient(url, token=token, timeout=TIMEOUT_S)
        if not client.has_collection(ALIAS):
            raise IndexUnusable(
                f"There is no index in {url} to renew. Run `selfcrag ingest PATH` to make one."
            )
        old = str(client.describe_collection(ALIAS)["collection_name"])
        new = created(client, url, embedder)
        kept = [*STRINGS, *NUMBERS, *LISTS]
        count = 0
        for batch in _batches(client, 'id != ""', kept):
            rows = [stored(row, embedder) for row in encode(batch)]
            client.insert(new, rows, timeout=TIMEOUT_S)
            count += len(rows)
        client.alter_alias(new, ALIAS)
        client.drop_collection(old)
    return count


def _batches(client: MilvusClient, condition: str, names: Sequence[str]) -> Iterator[list[Row]]:
    pages = client.query_iterator(
        ALIAS, batch_size=BATCH_ROWS, filter=condition, output_fields=list(names)
    )
    try:
        while rows := pages.next():
            yield [as_read(row) for row in rows]
    finally:
        pages.close()


@contextmanager
def _reached(url: str) -> Iterator[None]:
    try:
        yield
    except (MilvusException, OSError, RuntimeError, ValueError) as error:
        reason = str(getattr(error, "message", error)).split("\n")[0][:200]
        raise IndexUnusable(
            f"The index in {url} cannot be used ({reason}). See to it that Milvus runs there and"
            " SELFCRAG_INDEX_TOKEN is right."
        ) from error
