"""A document as the rows the index keeps: one a chunk, with the words and vector it is found by."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from app.ingest.chunker import DEFAULT_CHUNKING, Chunk, Chunking, chunk
from app.ingest.images import image_chunks
from app.ingest.loaders.by_suffix import load
from app.ingest.loaders.document import DocumentRefused, LoadedDocument, read
from app.retrieval.embedder import Embedder
from app.retrieval.images import IMAGE_KEYWORD
from app.retrieval.index import Row
from app.retrieval.terms import RareWords, packed, term_tables, term_weights
from app.retrieval.tokenizer import Segmenter
from graphs.options import DEFAULT_COLLECTION
from graphs.text.language import script_of

SECTION = " › "
# A batch of rows on their way to the index; between processes, too.
BATCH_ROWS = 512
KEYWORDS = 8


def document_id(source: str, owner: str = "", collection: str = DEFAULT_COLLECTION) -> str:
    """Sources of two owners or collections are two documents; `owner` "" is shared."""
    named = f"{owner}\0{source}" if owner else source
    if collection != DEFAULT_COLLECTION:
        named = f"{collection}\0{owner}\0{source}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def file_rows(
    file: Path,
    source: str,
    path: str,
    owner: str = "",
    chunking: Chunking = DEFAULT_CHUNKING,
    collection: str = DEFAULT_COLLECTION,
    loader: str = "",
    root: str = "",
) -> list[Row]:
    """The rows of one file, without words and vectors. Raises DocumentRefused.

    Those of images hold them under `image`, as they were found.
    """
    document = load(file, read(file), loader)
    rows = document_rows(source, path, document, owner, chunking, collection, file=file, root=root)
    if not rows:
        raise DocumentRefused("no text in it")
    return rows


def document_rows(
    source: str,
    path: str,
    document: LoadedDocument,
    owner: str = "",
    chunking: Chunking = DEFAULT_CHUNKING,
    collection: str = DEFAULT_COLLECTION,
    *,
    file: Path = Path(),
    root: str = "",
) -> list[Row]:
    """One row a chunk, still without words and vectors; those of images after the text's."""
    identity = document_id(source, owner, collection)
    text = [block for block in document.blocks if block.picture is None]
    chunks: list[tuple[Chunk, Row]] = [(part, {}) for part in chunk(text, chunking)]
    chunks += image_chunks(document.blocks, [part for part, _ in chunks], file, root)
    version = hashlib.sha256(f"{document.sha256} {chunking.name}".encode()).hexdigest()[:8]
    shared = {
        "document_id": identity,
        "owner": owner,
        "collection": collection,
        "title": document.title,
        "source": source,
        "path": path,
        "sha256": document.sha256,
        "bytes": document.bytes,
        "chunks": len(chunks),
        "chunking": chunking.name,
        "added_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return [
        asdict(part)
        | shared
        | more
        | {
            "id": f"{identity}-{version}-{position}",
            "position": position,
            "heading": SECTION.join(part.headings),
            "language": script_of(part.text),
        }
        for position, (part, more) in enumerate(chunks)
    ]


def without_image(row: Row) -> Row:
    """As the index keeps it."""
    return {name: value for name, value in row.items() if name != "image"}


def search_text(row: Row) -> str:
    """What a chunk is found by: title and headings count, too."""
    before = row.get("before")
    text = f"{before}{row['lead']}{row['text']}" if before else row["text"]
    questions = row.get("questions") or ()
    return "\n".join(filter(None, [row["title"], row["heading"], text, *questions]))


def with_words(rows: Sequence[Row], segmenter: Segmenter) -> list[Row]:
    """The rows with their words for full-text search, keywords and term weights."""
    tables = term_tables(segmenter)
    worded = []
    for row in rows:
        language, text = row["language"], search_text(row)
        weights = term_weights(row["title"], row["heading"], row["text"], language, tables)
        words = {
            "text_en": text if language == "en" else None,
            "text_zh": " ".join(segmenter.words(text)) if language == "zh" else None,
            "keywords": [*_marks(row), *RareWords(tables).of_text(text, KEYWORDS)],
            "terms": packed(weights),
        }
        worded.append(row | words)
    return worded


def _marks(row: Row) -> list[str]:
    """What stays of its keywords when they are made anew."""
    return [IMAGE_KEYWORD] if IMAGE_KEYWORD in (row.get("keywords") or ()) else []


def encoded(rows: Sequence[Row], embedder: Embedder, segmenter: Segmenter) -> list[Row]:
    return with_vectors(with_words(rows, segmenter), embedder)


def with_vectors(rows: Sequence[Row], embedder: Embedder) -> list[Row]:
    """Those read elsewhere may have theirs; texts without any known word have none."""
    wanting = [row for row in rows if "vector" not in row]
    done = [row for row in rows if "vector" in row]
    vectors = embedder.embed([search_text(row) for row in wanting])
    return done + [
        row | {"vector": vector if vector.any() else None}
        for row, vector in zip(wanting, vectors, strict=True)
    ]
