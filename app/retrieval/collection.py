"""How chunks lie in a collection of Milvus."""

from base64 import b64decode, b64encode
from uuid import uuid4

import numpy as np
from pymilvus import DataType, Function, FunctionType, MilvusClient

from app.retrieval.embedders.static import Embedder
from app.retrieval.index import FORMAT, LISTS, NUMBERS, STRINGS, Row, completed
from graphs.types import Language

# What clients open; the collection behind it changes when all is renewed.
ALIAS = "selfcrag"
LONGEST, MOST_LISTED = 65_535, 64
# The text of each language, and what Milvus makes of it for BM25.
WORDS: dict[Language, tuple[str, str]] = {
    "en": ("text_en", "words_en"),
    "zh": ("text_zh", "words_zh"),
}


def created(client: MilvusClient, url: str, embedder: Embedder) -> str:
    """The name of a new, empty collection."""
    name = f"{ALIAS}_{uuid4().hex[:12]}"
    layout = client.create_schema(auto_id=False, enable_dynamic_field=False)
    layout.add_field("id", DataType.VARCHAR, is_primary=True, max_length=255)
    for column in STRINGS[1:]:
        analysed = column in ("text_en", "text_zh")
        more = {"enable_analyzer": True, "analyzer_params": _analyser(column, url)}
        layout.add_field(column, DataType.VARCHAR, max_length=LONGEST, **(more if analysed else {}))
    for column in NUMBERS:
        layout.add_field(column, DataType.INT64)
    for column in LISTS:
        layout.add_field(
            column,
            DataType.ARRAY,
            element_type=DataType.VARCHAR,
            max_capacity=MOST_LISTED,
            max_length=LONGEST,
        )
    layout.add_field("terms", DataType.VARCHAR, max_length=LONGEST)
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
        properties={"embedder": embedder.name, "format": FORMAT},
    )
    return name


def _analyser(column: str, url: str) -> dict[str, object]:
    """English stems; of Chinese, which comes segmented, the words between blanks."""
    if url.endswith(".db"):
        return {"tokenizer": "standard"}  # all that Milvus Lite knows
    return {"type": "english"} if column == "text_en" else {"tokenizer": "whitespace"}


def stored(row: Row, embedder: Embedder) -> Row:
    """As Milvus takes it: no nulls, no bytes, nothing it has no field for."""
    row = completed(row)
    kept: Row = {name: _bounded(row.get(name) or "") for name in STRINGS}
    kept |= {name: row.get(name) or 0 for name in NUMBERS}
    kept |= {name: list(row.get(name) or [])[:MOST_LISTED] for name in LISTS}
    vector = row.get("vector")
    unknown = np.zeros(embedder.dimensions, dtype=np.float32)
    kept["vector"] = np.asarray(unknown if vector is None else vector).tolist()
    kept["terms"] = b64encode(row.get("terms") or b"").decode()
    return kept


def as_read(row: Row) -> Row:
    read = dict(row)
    if "page" in read:
        read["page"] = read["page"] or None
    if "terms" in read:
        read["terms"] = b64decode(read["terms"]) or None
    return read


def _bounded(text: str) -> str:
    """Milvus counts the bytes of a field."""
    if len(text) * 4 <= LONGEST:
        return text
    return text.encode()[:LONGEST].decode(errors="ignore")
