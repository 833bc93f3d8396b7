"""The table of LanceDB: its columns, its search structures, and how worn they are."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.index import FTS, Bitmap, BTree, IvfFlat, LabelList

from app.retrieval.embedders.static import Embedder
from app.retrieval.index import FORMAT, LISTS, NUMBERS, STRINGS, TEXT_COLUMNS

TABLE = "chunks"
# Below this many chunks an exact scan is fast enough and misses nothing.
VECTOR_INDEX_FROM = 50_000
# Readers may still be in the middle of a version this old when it is cleaned away.
KEEP_VERSIONS = timedelta(minutes=10)
# The share of rows, and the number of small files, that may lie beside the search structures.
OUTSIDE, MOST_PIECES = 0.01, 20
# What was replaced stays on disk with the versions that had it: so many that could be cleaned away.
MOST_VERSIONS = 50


def schema(embedder: Embedder) -> pa.Schema:
    fields = dict.fromkeys(STRINGS, pa.string()) | dict.fromkeys(NUMBERS, pa.int64())
    fields |= dict.fromkeys(LISTS, pa.list_(pa.string()))
    fields["terms"] = pa.binary()
    fields["vector"] = pa.list_(pa.float32(), embedder.dimensions)
    return pa.schema(fields, metadata={"embedder": embedder.name, "format": FORMAT})


async def indexed(table: lancedb.AsyncTable) -> set[str]:
    return {column for index in await table.list_indices() for column in index.columns}


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
    for column in ("owner", "language"):
        await table.create_index(column, config=Bitmap())
    await table.create_index("keywords", config=LabelList())


async def index_vectors(table: lancedb.AsyncTable) -> None:
    many = await table.count_rows() >= VECTOR_INDEX_FROM
    if many and "vector" not in await indexed(table):
        await table.create_index("vector", config=IvfFlat(distance_type="l2"))


async def tidy(table: lancedb.AsyncTable, folder: Path) -> None:
    """Brings what is new into the search structures, and drops old versions, where it is time."""
    await index_vectors(table)
    if await is_worn(table, folder):
        await table.optimize(cleanup_older_than=KEEP_VERSIONS)


async def is_worn(table: lancedb.AsyncTable, folder: Path) -> bool:
    """Whether so much lies beside the search structures, or is left, that users would feel it.

    Renewing them costs seconds where there are many rows; a few new ones are read as they are.
    """
    stats: Any = await table.stats()  # a dict, whatever its annotation says
    words = await table.index_stats(f"{TEXT_COLUMNS['en']}_idx")
    rows, pieces = stats["num_rows"], stats["fragment_stats"]["num_small_fragments"]
    outside = rows if words is None else words.num_unindexed_rows
    if outside > OUTSIDE * rows or pieces > MOST_PIECES:
        return True
    return await asyncio.to_thread(old_versions, folder) > MOST_VERSIONS


def old_versions(folder: Path) -> int:
    """How many versions no reader needs any more; each has a file of its own."""
    before = time.time() - KEEP_VERSIONS.total_seconds()
    try:
        with os.scandir(folder / f"{TABLE}.lance" / "_versions") as files:
            return sum(file.stat().st_mtime < before for file in files)
    except FileNotFoundError:  # another process cleans, or the index is gone
        return 0
