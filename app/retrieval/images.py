"""Image store: the images of the knowledge base, beside the index that holds their captions.

An image is known by the id of the chunk that its caption makes; who may see the chunk may see it.
"""

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
MAX_AT_ONCE = 500
"""Values of one statement; SQLite takes more, but not without bound."""

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
_COLUMNS = "id, document_id, near, caption, width, height, hash"


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
    document_id: str
    near: str | None
    caption: str
    width: int
    height: int
    perceptual_hash: str


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
            with self._reading() as database:
                database.execute(f"SELECT {_COLUMNS}, content FROM images LIMIT 1").fetchone()
        except IndexUnusable:
            return False
        return is_there or not self._was_there

    def keys(self) -> list[tuple[str, str]]:
        """Of all owners' images, their ids and their documents'."""
        with self._reading() as database:
            return database.execute("SELECT id, document_id FROM images").fetchall()

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
        documents = sorted({row["document_id"] for row in rows})
        current = {row["id"] for row in rows if "image" in row}
        with self._writing() as database:
            for part in _parts(documents):
                cursor = database.execute(
                    f"SELECT id FROM images WHERE document_id IN ({_marks(part)})", part
                )
                old = [(key,) for (key,) in cursor.fetchall() if key not in current]
                database.executemany("DELETE FROM images WHERE id = ?", old)

    def delete(
        self, keys: Sequence[str], column: Literal["document_id", "id"] = "document_id"
    ) -> None:
        if not keys or not self._file.exists():
            return
        with self._writing() as database:
            for part in _parts(keys):
                database.execute(f"DELETE FROM images WHERE {column} IN ({_marks(part)})", part)

    def content(self, image_id: str, scope: Scope) -> bytes | None:
        """The pixels, encoded, of one that may be seen."""
        seen, values = _seen(scope)
        with self._reading() as database:
            row = database.execute(
                f"SELECT content FROM images WHERE id = ? AND {seen}", (image_id, *values)
            ).fetchone()
        return None if row is None else bytes(row[0])

    def of_chunks(self, chunk_ids: Sequence[str], scope: Scope) -> list[StoredImage]:
        """The images that these chunks stand for, then those that stand by them."""
        by_id: dict[str, StoredImage] = {}
        seen, values = _seen(scope)
        with self._reading() as database:
            for column in ("id", "near"):
                for part in _parts(chunk_ids):
                    rows = database.execute(
                        f"SELECT {_COLUMNS} FROM images WHERE {column} IN ({_marks(part)})"
                        f" AND {seen} ORDER BY id",
                        (*part, *values),
                    )
                    by_id.update((row[0], StoredImage(*row)) for row in rows if row[0] not in by_id)
        return list(by_id.values())

    def nearest(
        self, perceptual_hash: str, most: int, scope: Scope
    ) -> list[tuple[StoredImage, float]]:
        """Those of the most similar pattern, best first: 1 for a copy, about 0.5 by chance."""
        if not perceptual_hash:
            return []
        query, (seen, values) = int(perceptual_hash, 16), _seen(scope)
        with self._reading() as database:
            hashes = database.execute(
                f"SELECT id, hash FROM images WHERE hash != '' AND {seen}", values
            )
            distances = [((int(own, 16) ^ query).bit_count(), key) for key, own in hashes]
        best = sorted(distances)[:most]
        stored = {image.id: image for image in self.of_chunks([key for _, key in best], scope)}
        return [(stored[key], 1 - bits / HASH_BITS) for bits, key in best if key in stored]

    def without_vector(self, embedder: str, most: int) -> list[tuple[str, bytes]]:
        """Ids and pixels of some, of all owners, that this embedder has not read."""
        with self._reading() as database:
            return database.execute(
                "SELECT id, content FROM images WHERE embedder != ? LIMIT ?", (embedder, most)
            ).fetchall()

    def keep_vectors(self, embedder: str, vectors: Sequence[tuple[str, bytes]]) -> None:
        with self._writing() as database:
            database.executemany(
                "UPDATE images SET embedder = ?, vector = ? WHERE id = ?",
                ((embedder, vector, key) for key, vector in vectors),
            )

    def vectors(self, embedder: str, scope: Scope) -> list[tuple[str, bytes]]:
        """Ids and vectors (float32) of all that may be seen and this embedder has read."""
        seen, values = _seen(scope)
        with self._reading() as database:
            return database.execute(
                f"SELECT id, vector FROM images WHERE embedder = ? AND vector NOT NULL AND {seen}",
                (embedder, *values),
            ).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        place = f"{self._file.absolute().as_uri()}?mode=ro" if self._file.exists() else ":memory:"
        with self._usable(), closing(sqlite3.connect(place, BUSY_S, uri=True)) as database:
            if place == ":memory:":
                database.executescript(_TABLE)
            yield database

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


def _seen(scope: Scope) -> tuple[str, list[str]]:
    """The condition on what may be seen, as the index has it, and its values."""
    condition = f"owner IN ({_marks(scope.owners)})"
    if scope.collections:
        condition += f" AND collection IN ({_marks(scope.collections)})"
    return condition, [*scope.owners, *scope.collections]


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _parts(values: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(values), MAX_AT_ONCE):
        yield list(values[at : at + MAX_AT_ONCE])
