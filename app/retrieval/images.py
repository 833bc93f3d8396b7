"""Image store: the images of the knowledge base, beside the index that holds their captions.

An image is known by the id of the chunk that its caption makes; who may see the chunk may see it.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.retrieval.index import IndexUnusable
from graphs.options import Scope

FILE = "images.sqlite"
IMAGE_KEYWORD = "has:image"
"""Among the keywords of every chunk that stands for an image."""
MEDIA_TYPE = "image/webp"
MAX_BYTES = 10_000_000
"""Of an image as it comes in."""
HASH_BITS = 63
BUSY_S = 30.0

Row = Mapping[str, Any]

_TABLE = """
CREATE TABLE IF NOT EXISTS images (
    id TEXT PRIMARY KEY, document_id TEXT NOT NULL, owner TEXT NOT NULL, collection TEXT NOT NULL,
    near TEXT, caption TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
    hash TEXT NOT NULL, embedder TEXT NOT NULL DEFAULT '', vector BLOB, content BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS images_by_document ON images (document_id);
CREATE INDEX IF NOT EXISTS images_by_near ON images (near);
"""
_COLUMNS = "id, near, caption, width, height"
_SEEN = """owner IN (SELECT value FROM json_each(:owners)) AND
(:collections = '[]' OR collection IN (SELECT value FROM json_each(:collections)))"""
"""The condition on what may be seen, as the index has it, with the values of `_seen_in`. A list is
one value of a statement, of which SQLite takes a bounded number."""


@dataclass(frozen=True, slots=True)
class PlainImage:
    """An image encoded anew; `perceptual_hash` in hexadecimal, empty where it has no pattern."""

    content: bytes
    width: int
    height: int
    perceptual_hash: str


@dataclass(frozen=True, slots=True)
class StoredImage:
    """What is kept of an image beside its pixels; `near` is the chunk of text that it stands by."""

    id: str
    near: str | None
    caption: str
    width: int
    height: int


class ImageStore:
    """Images in one file of the data folder. Its methods block.

    Several processes may read it while one writes. What cannot be read or written is IndexUnusable.
    """

    def __init__(self, data_dir: Path, *, was_there: bool = False) -> None:
        self._file, self._was_there = data_dir / FILE, was_there

    def can_be_read(self) -> bool:
        """Whether it opens; one that has never been there holds nothing, one that is gone did."""
        is_there = self._file.exists()
        self._was_there = self._was_there or is_there
        try:
            self._read(f"SELECT {_COLUMNS}, content FROM images LIMIT 1")
        except IndexUnusable:
            return False
        return is_there or not self._was_there

    def keys(self) -> list[tuple[str, str]]:
        """Of all owners' images, their ids and their documents'."""
        return self._read("SELECT id, document_id FROM images")

    def put(self, rows: Sequence[Row]) -> None:
        """Adds the images of these chunks; those of earlier versions stay until `replace_old`."""
        images = [row for row in rows if "image" in row]
        if not images:
            return
        with self._writing() as database:
            database.executemany(
                "INSERT OR REPLACE INTO images VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                map(_values, images),
            )

    def replace_old(self, rows: Sequence[Row]) -> None:
        """Of the documents of these chunks, removes what is not of these chunks."""
        if not self._file.exists():
            return
        documents = {row["document_id"] for row in rows}
        current = [row["id"] for row in rows if "image" in row]
        with self._writing() as database:
            database.execute(
                "DELETE FROM images WHERE document_id IN (SELECT value FROM json_each(?))"
                " AND id NOT IN (SELECT value FROM json_each(?))",
                (json.dumps(list(documents)), json.dumps(current)),
            )

    def delete(
        self, keys: Sequence[str], column: Literal["document_id", "id"] = "document_id"
    ) -> None:
        if not keys or not self._file.exists():
            return
        chosen = f"{column} IN (SELECT value FROM json_each(?))"
        with self._writing() as database:
            database.execute(f"DELETE FROM images WHERE {chosen}", (json.dumps(list(keys)),))

    def content(self, image_id: str, scope: Scope) -> bytes | None:
        """The pixels, encoded, of one that may be seen."""
        query = f"SELECT content FROM images WHERE id = :id AND {_SEEN}"
        rows = self._read(query, {"id": image_id, **_seen_in(scope)})
        return bytes(rows[0][0]) if rows else None

    def of_chunks(self, chunk_ids: Sequence[str], scope: Scope) -> list[StoredImage]:
        """The images that these chunks stand for, then those that stand by them."""
        among = "IN (SELECT value FROM json_each(:chunks))"
        query = f"SELECT {_COLUMNS} FROM images WHERE (id {among} OR near {among}) AND {_SEEN}"
        values = {"chunks": json.dumps(list(chunk_ids)), **_seen_in(scope)}
        images = [StoredImage(*row) for row in self._read(query, values)]
        own = set(chunk_ids)
        return sorted(images, key=lambda image: (image.id not in own, image.id))

    def nearest(self, perceptual_hash: str, most: int, scope: Scope) -> list[tuple[str, float]]:
        """Ids of the most similar pattern, best first: 1 for a copy, about 0.5 by chance."""
        if not perceptual_hash:
            return []
        given, query = int(perceptual_hash, 16), "SELECT id, hash FROM images WHERE hash != ''"
        hashes = self._read(f"{query} AND {_SEEN}", _seen_in(scope))
        distances = [((int(own, 16) ^ given).bit_count(), key) for key, own in hashes]
        return [(key, 1 - bits / HASH_BITS) for bits, key in sorted(distances)[:most]]

    def without_vector(self, embedder: str, most: int) -> list[tuple[str, bytes]]:
        """Ids and pixels of some, of all owners, that this embedder has not read."""
        query = "SELECT id, content FROM images WHERE embedder != ? LIMIT ?"
        return self._read(query, (embedder, most))

    def keep_vectors(self, embedder: str, vectors: Sequence[tuple[str, bytes]]) -> None:
        with self._writing() as database:
            database.executemany(
                "UPDATE images SET embedder = ?, vector = ? WHERE id = ?",
                ((embedder, vector, key) for key, vector in vectors),
            )

    def vectors(self, embedder: str, scope: Scope) -> list[tuple[str, bytes]]:
        """Ids and vectors (float32) of all that may be seen and this embedder has read."""
        query = "SELECT id, vector FROM images WHERE embedder = :embedder AND vector NOT NULL"
        return self._read(f"{query} AND {_SEEN}", {"embedder": embedder, **_seen_in(scope)})

    def _read(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """All rows; none where there is no store yet."""
        if not self._file.exists():
            return []
        place = f"{self._file.absolute().as_uri()}?mode=ro"
        with self._usable(), closing(sqlite3.connect(place, BUSY_S, uri=True)) as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not self._file.exists():
            self._file.touch(mode=0o600)
        with self._usable(), closing(sqlite3.connect(self._file, BUSY_S)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(_TABLE)
            with database:
                yield database

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise IndexUnusable(f"the images in {self._file} cannot be used ({error})") from error


def _values(row: Row) -> tuple[Any, ...]:
    image, plain = row["image"], row["image"]["content"]
    near = image["near"]
    return (
        row["id"],
        row["document_id"],
        row["owner"],
        row["collection"],
        None if near is None else f"{row['id'].rpartition('-')[0]}-{near}",
        image["caption"],
        plain.width,
        plain.height,
        plain.perceptual_hash,
        "",
        None,
        plain.content,
    )


def _seen_in(scope: Scope) -> dict[str, str]:
    return {"owners": json.dumps(scope.owners), "collections": json.dumps(scope.collections)}
