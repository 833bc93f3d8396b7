"""`python -m app.ingest.child CACHE`: reads documents apart from the service.

A parser led astray by a document takes this process along and nothing else. Documents come as
JSON objects on standard input; for each follow frames on standard output: JSON behind its length
(4 bytes, big-endian). The first is {"rows": how many} or {"refused": why, "may_pass": whether an
outage is why}, then come the rows themselves, in batches. {"failed": traceback} is a fault of this
program.
"""

import json
import os
import resource
import sys
import traceback
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from app.ingest.errors import DocumentRefused
from app.ingest.rows import (
    BATCH_ROWS,
    RememberingSegmenter,
    Row,
    file_rows,
    with_vectors,
    with_words,
)
from app.retrieval.chunking import Cutting
from app.retrieval.embedders.static import StaticEmbedder

MEMORY_BYTES = 2_000_000_000
COMPUTING_S = 120
"""CPU time for the parsing of a document, and for each batch of its rows; a signal ends it."""
NICENESS = 5
TOO_MUCH_MEMORY = f"needs more than {MEMORY_BYTES / 1e9:.0f} GB of memory to be read; split it"


@dataclass(frozen=True, slots=True)
class Task:
    """A document to read; `embed`: with the vectors of the shipped table."""

    file: str
    source: str
    path: str
    owner: str
    embed: bool
    cutting: dict[str, Any]


class Reader:
    def __init__(self, cache: Path) -> None:
        self._segmenter = RememberingSegmenter(cache)
        self._embedder = StaticEmbedder(self._segmenter)

    def frames(self, task: Task) -> Iterator[dict[str, Any]]:
        try:
            cutting = Cutting(**task.cutting)
            rows = file_rows(Path(task.file), task.source, task.path, task.owner, cutting)
        except DocumentRefused as refusal:
            yield {"refused": refusal.reason, "may_pass": refusal.may_pass}
            return
        except MemoryError:
            yield {"refused": TOO_MUCH_MEMORY, "may_pass": False}
            return
        yield {"rows": len(rows)}
        for at in range(0, len(rows), BATCH_ROWS):
            batch = with_words(rows[at : at + BATCH_ROWS], self._segmenter)
            batch = with_vectors(batch, self._embedder) if task.embed else batch
            yield {"batch": [_framed(row) for row in batch]}


def _framed(row: Row) -> Row:
    """The row with its bytes as text."""
    vector, terms = row.get("vector"), row["terms"]
    if vector is not None:
        row = row | {"vector": b64encode(vector.tobytes()).decode()}
    return row | {"terms": terms and b64encode(terms).decode()}


def serve(tasks: BinaryIO, frames: BinaryIO, reader: Reader) -> None:
    for line in tasks:
        _allow(COMPUTING_S)
        for frame in _told(reader.frames(Task(**json.loads(line)))):
            body = json.dumps(frame, ensure_ascii=False).encode("utf-8", "surrogatepass")
            frames.write(len(body).to_bytes(4) + body)
            frames.flush()
            _allow(COMPUTING_S)


def _allow(seconds: int) -> None:
    """So much CPU time from now on; the time of the clock says little on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, most))


def _told(frames: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A fault of ours is told to whoever asked, with where it happened."""
    try:
        yield from frames
    except Exception:
        yield {"failed": traceback.format_exc()}
        raise


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.nice(NICENESS)
    # What a parser prints must not come among the frames.
    with os.fdopen(os.dup(1), "wb") as frames:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, frames, Reader(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
