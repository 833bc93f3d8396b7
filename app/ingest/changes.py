"""What an ingest has to read: documents that are new, changed, or cut another way now.

A manifest beside the index lists what the last ingest left in it, so that an ingest of unchanged
files ends without opening the index.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app.ingest.chunker import Chunking
from app.ingest.files import Listed, StateFolder, at_or_below, gone, is_gone, is_url, listed
from app.ingest.loaders.document import DocumentRefused, check_suffix, digest, read
from app.retrieval.embedder import table_name
from app.retrieval.index import StoredDocument
from app.settings import StateSettings


@dataclass(frozen=True, slots=True)
class RefusedFile:
    source: str
    reason: str


@dataclass(slots=True)
class Report:
    """Sources by what became of them; `chunks` counts those written in this run."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    chunks: int = 0
    took_s: float = 0.0

    @property
    def nothing_read(self) -> bool:
        return not (self.added or self.updated or self.skipped or self.removed)


def unchanged(
    names: Sequence[str], settings: StateSettings, *, prune: bool = False
) -> Report | None:
    """The report of an ingest that would change nothing; None where that is not certain."""
    if settings.embedder != "static" or settings.index_url or any(map(is_url, names)):
        return None
    started, paths = time.perf_counter(), list(map(Path, names))
    chunking = Chunking(settings.chunking, settings.chunk_tokens).name
    known = _read_manifest(settings.data_dir / "index", table_name())
    state = StateFolder(settings.data_dir)
    if known is None or state.kept(paths):
        return None
    items = listed(paths, known, state)
    if prune and gone(paths, known, items, state):
        return None
    report = Report()
    for item in items:
        try:
            if changed_bytes(item, chunking) is not None:
                return None
        except DocumentRefused as refusal:
            refused, outdated = judged(item, refusal, known, prune)
            if refused is None or outdated:
                return None
            report.refused.append(refused)
        else:
            report.skipped.append(item.source)
    report.took_s = time.perf_counter() - started
    return report


def changed_bytes(item: Listed, chunking: str) -> int | None:
    """The size of a file to be read, None of one stored as it is. Raises DocumentRefused."""
    file, stored = item.file, item.stored
    if not _is_utf8(item.path):
        raise DocumentRefused("its path is not UTF-8; rename it")
    if not (item.path and is_gone(item.path)):
        check_suffix(file)
    content = read(file)
    is_stored = (
        stored is not None
        and stored.chunking in {"", chunking}
        and (stored.path, stored.sha256) == (item.path, digest(content))
    )
    return None if is_stored else len(content)


def judged(
    item: Listed, refusal: DocumentRefused, known: Sequence[StoredDocument], prune: bool | None
) -> tuple[RefusedFile | None, list[StoredDocument]]:
    """How a refusal is told, and what goes from the index with it where asked to `prune`.

    Else what was read from the path before stays, which the reason says; an outage is no reason to
    let it go. `prune` None: nobody can ask for it.
    """
    reason = refusal.reason
    missing = bool(item.path) and is_gone(item.path)
    stored = at_or_below([item.path], known) if missing else [item.stored]
    earlier = [document for document in stored if document is not None]
    outdated: list[StoredDocument] = []
    if earlier and prune and not refusal.may_pass:
        if missing:  # told among the removed
            return None, []
        outdated = earlier
    elif earlier and item.stored:
        reason += "; its earlier version stays"
        if prune is not None:
            reason += ", for this may pass" if refusal.may_pass else ", --prune removes it"
    elif earlier:
        reason += f"; {len(earlier)} documents read from it stay, --prune removes them"
    return RefusedFile(item.shown, reason), outdated


def write_manifest(index: Path, embedder: str, known: Sequence[StoredDocument]) -> None:
    """Call it as the one who has the right to write to the index in the folder `index`."""
    manifest = {
        "embedder": embedder,
        "files": _files_of(index),
        "documents": [asdict(document) for document in known],
    }
    file = _manifest_file(index)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(manifest), encoding="utf-8")
    new.replace(file)


def _read_manifest(index: Path, embedder: str) -> list[StoredDocument] | None:
    """None where there is none, or where the index was written to since."""
    try:
        manifest: dict[str, Any] = json.loads(_manifest_file(index).read_text(encoding="utf-8"))
        if (manifest["embedder"], manifest["files"]) != (embedder, _files_of(index)):
            return None
        return [StoredDocument(**document) for document in manifest["documents"]]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _manifest_file(index: Path) -> Path:
    return index.parent / "cache" / "documents.json"


def _files_of(index: Path) -> str:
    """Changes with any file of the index."""
    state = hashlib.sha256()
    for folder, folders, names in os.walk(index):
        folders.sort()
        for name in sorted(names):
            status = os.stat(os.path.join(folder, name))
            state.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()


def _is_utf8(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
