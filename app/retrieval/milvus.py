"""Index in a Milvus: many machines may search it, and it may be larger than one of them.

Milvus has no transactions. A document is replaced by writing its new chunks and then deleting the
old: readers may for a moment see both, never neither. A document is known by its chunk of position
0, which is written last, and by its oldest reading: after a crash the next ingest completes it.
"""

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import groupby
from pathlib import Path
from typing import ParamSpec, TypeVar
from uuid import uuid4

import numpy as np
from pymilvus import DataType, Function, FunctionType, MilvusClient, MilvusException

from app.observability.redaction import redact
from app.retrieval import index
from app.retrieval.document_paths import DocumentPaths
from app.retrieval.embedder import Embedder, Vectors
from app.retrieval.index import ANYTHING, MILVUS, Hit, IndexUnusable, Row
from graphs.options import Filters, Scope
from graphs.types import Language

BATCH_ROWS = 512
ANY_ROW = 'id != ""'
TIMEOUT_S = 30.0
# What clients open; the collection behind it changes when all is renewed.
ALIAS = "selfcrag"
MAX_FIELD_BYTES, MAX_LIST_ITEMS = 65_535, 64
# The text of each language, and what Milvus makes of it for BM25.
WORDS: dict[Language, tuple[str, str]] = {
    "en": ("text_en", "words_en"),
    "zh": ("text_zh", "words_zh"),
}

P = ParamSpec("P")
T = TypeVar("T")

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # each error is raised as well


def threaded(blocking: Callable[P, T]) -> Callable[P, Coroutine[object, None, T]]:
    """A method whose calls go through worker threads."""

    @wraps(blocking)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(blocking, *args, **kwargs)

    return call


class MilvusIndex:
    """The `Index` behind an address."""

    def __init__(self, client: MilvusClient, url: str, embedder: Embedder, folder: Path) -> None:
        self._client = client
        self._url = url
        self.embedder = embedder
        self.folder = folder
        self._paths = DocumentPaths(folder.parent)

    @classmethod
    @threaded
    def open(cls, url: str, token: str, embedder: Embedder, folder: Path) -> "MilvusIndex":
        with _reached(url):
            client = MilvusClient(url, token=token, timeout=TIMEOUT_S)
            if not client.has_collection(ALIAS):
                client.create_alias(_created(client, url, embedder), ALIAS)
            described = client.describe_collection(ALIAS)
            written = dict(described["properties"])
            if not set(index.STRINGS) <= _fields(described):
                written["format"] = "without collections"
            index.check(url, embedder, written)
        return cls(client, url, embedder, folder)

    @property
    def remedy(self) -> str:
        return "the index cannot be searched; see to it that its Milvus runs"

    async def tidy(self) -> None:
        """Milvus indexes and compacts by itself."""

    async def probe(self) -> None:
        await self.count(Scope())

    @threaded
    def has(self, keyword: str) -> bool:
        with _reached(self._url):
            return bool(_counted(self._client, MILVUS.having(keyword)))

    async def size(self) -> None:
        """Not known: Milvus would count every row."""

    @threaded
    def search_words(
        self,
        words: str,
        language: Language,
        limit: int,
        scope: Scope,
        filters: Filters = ANYTHING,
    ) -> list[Hit]:
        if not words.strip():
            return []
        _, field = WORDS[language]
        condition = MILVUS.condition(scope, filters, language)
        hits = self._search(words, field, "BM25", limit, condition)
        # Milvus Lite tells BM25 scores negated.
        return [index.hit_of(row, abs(score)) for row, score in hits if score]

    @threaded
    def search_vector(
        self,
        vector: Vectors,
        language: Language | None,
        limit: int,
        scope: Scope,
        filters: Filters = ANYTHING,
    ) -> list[Hit]:
        if not vector.any():
            return []
        condition = MILVUS.condition(scope, filters, language)
        hits = self._search(vector.tolist(), "vector", "IP", limit, condition)
        # Exactly 0 is the score of a text without any known word.
        return [index.hit_of(row, score) for row, score in hits if score]

    @threaded
    def columns(self, ids: Sequence[str], names: Sequence[str], scope: Scope) -> dict[str, Row]:
        if not ids:
            return {}
        condition = f"{MILVUS.among('id', ids)} and {MILVUS.condition(scope)}"
        return {row["id"]: row for row in self._query(condition, ["id", *names])}

    @threaded
    def chunks_of(self, document_id: str, names: Sequence[str], scope: Scope) -> list[Row]:
        condition = MILVUS.condition(scope, Filters.model_construct(document_ids=[document_id]))
        rows = self._query(condition, ["position", *names])
        return sorted(rows, key=lambda row: int(row["position"]))

    @threaded
    def put(self, rows: Sequence[Row]) -> None:
        # Position 0, by which a document is known, comes last.
        placed = index.with_kept_paths(rows, self._paths)
        ordered = sorted(placed, key=lambda row: (row["document_id"], -row["position"]))
        with _reached(self._url):
            for at in range(0, len(ordered), BATCH_ROWS):
                batch = [_stored(row, self.embedder) for row in ordered[at : at + BATCH_ROWS]]
                self._client.upsert(ALIAS, batch, timeout=TIMEOUT_S)
            for document_id, group in groupby(ordered, key=lambda row: str(row["document_id"])):
                version = next(group)["id"].rpartition("-")[0] or document_id
                old = f"document_id == {MILVUS.quote(document_id)}"
                old += f" and not (id like {MILVUS.quote(version + '%')})"
                self._client.delete(ALIAS, filter=old, timeout=TIMEOUT_S)

    @threaded
    def delete(self, document_ids: Sequence[str], scope: Scope) -> int:
        if not document_ids:
            return 0
        named = MILVUS.condition(scope, Filters.model_construct(document_ids=list(document_ids)))
        documents = {row["document_id"] for row in self._query(named, ["document_id"])}
        if documents:
            with _reached(self._url):
                self._client.delete(ALIAS, filter=named, timeout=TIMEOUT_S)
        return len(documents)

    @threaded
    def documents(self, scope: Scope) -> list[index.StoredDocument]:
        seen = f"position == 0 and {MILVUS.condition(scope)}"
        readings = sorted(
            self._query(seen, index.DOCUMENT_COLUMNS), key=lambda row: row["added_at"]
        )
        oldest = {row["document_id"]: row for row in reversed(readings)}
        return index.stored_documents(
            ([row[name] for name in index.DOCUMENT_COLUMNS] for row in oldest.values()),
            self._paths,
        )

    @threaded
    def collections(self, scope: Scope) -> list[index.StoredCollection]:
        seen = f"position == 0 and {MILVUS.condition(scope)}"
        rows = self._query(seen, ["document_id", "collection", "chunks"])
        documents = {row["document_id"]: row for row in rows}.values()
        counted: dict[str, list[int]] = {}
        for row in documents:
            counted.setdefault(row["collection"], []).append(int(row["chunks"]))
        return [
            index.StoredCollection(name, len(chunks), sum(chunks))
            for name, chunks in sorted(counted.items())
        ]

    @threaded
    def count(self, scope: Scope) -> int:
        seen = MILVUS.condition(scope)
        with _reached(self._url):
            return _counted(self._client, seen)

    def _query(self, condition: str, names: Sequence[str]) -> list[Row]:
        """All rows, in batches, for a single answer of Milvus is bounded."""
        with _reached(self._url):
            return [row for batch in _batches(self._client, condition, names) for row in batch]

    def _search(
        self, data: object, field: str, metric: str, limit: int, condition: str
    ) -> list[tuple[Row, float]]:
        with _reached(self._url):
            (hits,) = self._client.search(
                ALIAS,
                data=[data],
                anns_field=field,
                filter=condition,
                limit=limit,
                search_params={"metric_type": metric},
                output_fields=index.HIT_COLUMNS,
                timeout=TIMEOUT_S,
            )
        return [(_as_read({"id": hit["id"], **hit["entity"]}), hit["distance"]) for hit in hits]


def embedder_of(url: str, token: str) -> str:
    """The name of the embedder that wrote the index, empty without one. Raises IndexUnusable."""
    with _reached(url):
        client = MilvusClient(url, token=token, timeout=TIMEOUT_S)
        if not client.has_collection(ALIAS):
            return ""
        return str(dict(client.describe_collection(ALIAS)["properties"]).get("embedder", ""))


def renew(url: str, token: str, embedder: Embedder, encode: index.Encode) -> int:
    """Writes every row to a new collection, which then takes the old one's place."""
    with _reached(url):
        client = MilvusClient(url, token=token, timeout=TIMEOUT_S)
        if not client.has_collection(ALIAS):
            raise IndexUnusable(
                f"There is no index in {redact(url)} to renew. Run `selfcrag ingest PATH` to make"
                " one."
            )
        described = client.describe_collection(ALIAS)
        old, known = str(described["collection_name"]), _fields(described)
        new = _created(client, url, embedder)
        columns = [n for n in (*index.STRINGS, *index.NUMBERS, *index.LISTS) if n in known]
        count, total = 0, _counted(client, ANY_ROW)
        for batch in _batches(client, ANY_ROW, columns):
            rows = [_stored(row, embedder) for row in encode(batch, total)]
            client.insert(new, rows, timeout=TIMEOUT_S)
            count += len(rows)
        client.alter_alias(new, ALIAS)
        client.drop_collection(old)
    return count


def _fields(described: Row) -> set[str]:
    return {field["name"] for field in described["fields"]}


def _counted(client: MilvusClient, condition: str) -> int:
    (row,) = client.query(ALIAS, filter=condition, output_fields=["count(*)"], timeout=TIMEOUT_S)
    return int(row["count(*)"])


def _batches(client: MilvusClient, condition: str, names: Sequence[str]) -> Iterator[list[Row]]:
    pages = client.query_iterator(
        ALIAS, batch_size=BATCH_ROWS, filter=condition, output_fields=list(names)
    )
    try:
        while rows := pages.next():
            yield [_as_read(row) for row in rows]
    finally:
        pages.close()


@contextmanager
def _reached(url: str) -> Iterator[None]:
    try:
        yield
    except (MilvusException, OSError, RuntimeError, ValueError) as error:
        reason = str(getattr(error, "message", error)).split("\n")[0][:200]
        raise IndexUnusable(
            f"The index in {redact(url)} cannot be used ({redact(reason)}). See to it that Milvus"
            " runs there and SELFCRAG_INDEX_TOKEN is right."
        ) from error


def _created(client: MilvusClient, url: str, embedder: Embedder) -> str:
    """The name of a new, empty collection."""
    name = f"{ALIAS}_{uuid4().hex[:12]}"
    layout = client.create_schema(auto_id=False, enable_dynamic_field=False)
    layout.add_field("id", DataType.VARCHAR, is_primary=True, max_length=255)
    for column in index.STRINGS[1:]:
        analysed = column in ("text_en", "text_zh")
        more = {"enable_analyzer": True, "analyzer_params": _analyser(column, url)}
        layout.add_field(
            column, DataType.VARCHAR, max_length=MAX_FIELD_BYTES, **(more if analysed else {})
        )
    for column in index.NUMBERS:
        layout.add_field(column, DataType.INT64)
    for column in index.LISTS:
        layout.add_field(
            column,
            DataType.ARRAY,
            element_type=DataType.VARCHAR,
            max_capacity=MAX_LIST_ITEMS,
            max_length=MAX_FIELD_BYTES,
        )
    layout.add_field("terms", DataType.VARCHAR, max_length=MAX_FIELD_BYTES)
    layout.add_field("vector", DataType.FLOAT_VECTOR, dim=embedder.dimensions)
    indexes = client.prepare_index_params()
    indexes.add_index("vector", index_type="AUTOINDEX", metric_type="IP")
    for text, words in WORDS.values():
        layout.add_field(words, DataType.SPARSE_FLOAT_VECTOR)
        layout.add_function(Function(words, FunctionType.BM25, [text], [words]))
        indexes.add_index(words, index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    client.create_collection(
        name,
        schema=layout,
        index_params=indexes,
        consistency_level="Strong",
        properties={"embedder": embedder.name, "format": index.FORMAT},
    )
    return name


def _analyser(column: str, url: str) -> dict[str, object]:
    """English stems; of Chinese, which comes segmented, the words between blanks."""
    if url.endswith(".db"):
        return {"tokenizer": "standard"}  # all that Milvus Lite knows
    return {"type": "english"} if column == "text_en" else {"tokenizer": "whitespace"}


def _stored(row: Row, embedder: Embedder) -> Row:
    """As Milvus takes it: no nulls, no bytes, nothing it has no field for."""
    row = index.completed(row)
    stored: Row = {name: _bounded(row.get(name) or "") for name in index.STRINGS}
    stored |= {name: row.get(name) or 0 for name in index.NUMBERS}
    stored |= {name: list(row.get(name) or [])[:MAX_LIST_ITEMS] for name in index.LISTS}
    vector = row.get("vector")
    unknown = np.zeros(embedder.dimensions, dtype=np.float32)
    stored["vector"] = np.asarray(unknown if vector is None else vector).tolist()
    stored["terms"] = b64encode(row.get("terms") or b"").decode()
    return stored


def _as_read(row: Row) -> Row:
    read = dict(row)
    if "page" in read:
        read["page"] = read["page"] or None
    if "terms" in read:
        read["terms"] = b64decode(read["terms"]) or None
    return read


def _bounded(text: str) -> str:
    """Milvus counts the bytes of a field."""
    if len(text) * 4 <= MAX_FIELD_BYTES:
        return text
    return text.encode()[:MAX_FIELD_BYTES].decode(errors="ignore")
