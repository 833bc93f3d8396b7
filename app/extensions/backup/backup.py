"""Backup of the state folder: made while the service runs, restored whole or not at all.

A backup holds the database, the index, the images and the uploaded files; caches are made anew.
What lies elsewhere, in a PostgreSQL or a Milvus, is backed up by its own tools.
"""

import asyncio
import json
import os
import shutil
import sqlite3
import sys
import tarfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from app.errors import ServiceError, StartFailed
from app.retrieval.document_paths import UPLOADS
from app.retrieval.images import FILE as IMAGES
from app.retrieval.images import IMAGE_KEYWORD, ImageStore
from app.retrieval.index import (
    LANCEDB,
    IndexMismatch,
    IndexUnusable,
    IngestBusy,
    StoredDocument,
    make_folder,
    writing,
)
from app.settings import StateSettings
from app.state_folder import (
    INCOMING,
    RESTORING,
    make_private,
    what_is_unfinished,
    why_unwritable,
)
from app.storage.database import FILE, database_url, open_engine, unusable

INDEX = "index"
MANIFEST, VERSIONS = ".manifest", "_versions"
"""A manifest of the index names the files of one version."""
PARTS = (FILE, INDEX, UPLOADS, IMAGES)
BESIDE = tuple(f"{file}-{end}" for file in (FILE, IMAGES) for end in ("wal", "shm"))
"""Files of the database's that belong to it while it is open."""
ABOUT = "backup.json"
"""Written last: a backup without it is not whole."""
FORMAT = 1
TAR = (".tar", ".tar.gz", ".tgz")
STREAM = "-"
WAIT_S = 5.0
"""For whoever writes to the index; a long ingest is not waited for."""
COPYING, UNPACKED, REPLACED = ".backup-", ".restore-", ".replaced-"
ABANDONED_S = 86_400.0
MAX_NAMED = 3


class BackupFailed(ServiceError):
    """A backup cannot be made, or what is to be restored is none or may not be."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a backup holds, and sentences on what it does not."""

    documents: int
    uploads: int
    has_database: bool
    notes: tuple[str, ...] = ()


async def back_up(settings: StateSettings, target: str) -> Summary:
    """A copy of the state, as a folder, as a tar where `target` ends so, or on standard output.

    Raises BackupFailed, IndexUnusable, OSError, sqlite3.Error; then nothing is left at `target`.
    """
    state = settings.data_dir
    if unfinished := what_is_unfinished(state):
        raise BackupFailed(f"{unfinished}.")
    if not _has_state(state):
        raise BackupFailed(f"there is nothing to back up in {state}.")
    if target != STREAM:
        _check_target(Path(target), state)
    _remove_abandoned(state)
    with TemporaryDirectory(prefix=COPYING, dir=state, ignore_cleanup_errors=True) as folder:
        copy = Path(folder)
        await asyncio.to_thread(_copy_database, state / FILE, copy / FILE)
        async with AsyncExitStack() as stack:
            with suppress(IngestBusy):  # an ingest: what it commits meanwhile is whole as well
                await stack.enter_async_context(writing(state / INDEX, WAIT_S))
            await asyncio.to_thread(_copy_knowledge, state, copy)
        try:
            summary = await _summary(copy, settings)
        except IndexUnusable as error:
            raise IndexUnusable(str(error).replace(folder, str(state))) from error
        about = {
            "format": FORMAT,
            "made_at": time.time(),
            "documents": summary.documents,
            "uploads": summary.uploads,
            "has_database": summary.has_database,
        }
        (copy / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
        await asyncio.to_thread(_write, copy, target)
    return summary


async def restore(settings: StateSettings, source: str, *, force: bool = False) -> Summary:
    """Puts a backup in the place of the state folder's parts, once it is unpacked and checked.

    Raises BackupFailed, IngestBusy, OSError; then the state is as before. A process that is killed
    while the parts are exchanged leaves a state that is refused until a restore has ended.
    """
    state = settings.data_dir
    if not force and (_has_state(state) or what_is_unfinished(state)):
        raise BackupFailed(
            f"{state} holds state already: name another folder by SELFCRAG_DATA_DIR, or replace"
            " what is there with --force."
        )
    make_private(state)
    async with writing(state / INDEX, WAIT_S):
        with TemporaryDirectory(prefix=UNPACKED, dir=state, ignore_cleanup_errors=True) as folder:
            await asyncio.to_thread(_unpack, source, Path(folder))
            summary = await _checked(Path(folder), source, settings)
            await asyncio.to_thread(_assert_unused, state / FILE)
            await asyncio.to_thread(_exchange, Path(folder), state)
    return summary


async def _summary(state: Path, settings: StateSettings) -> Summary:
    """Once all was read. Raises IndexUnusable, sqlite3.Error."""
    for file in (FILE, IMAGES):
        await asyncio.to_thread(_check_database, state / file)
    documents: list[StoredDocument] = []
    try:
        documents = await _documents_of(state)
    except IndexUnusable:
        raise
    except IndexMismatch:  # an earlier version's, which --reindex renews
        pass
    uploads, notes = len(_files_below(state / UPLOADS)), tuple(_elsewhere(settings))
    return Summary(len(documents), uploads, (state / FILE).exists(), notes)


async def problems(settings: StateSettings) -> list[str]:
    """A sentence for each thing that is wrong with the state, with the way out."""
    state = settings.data_dir
    if unfinished := what_is_unfinished(state):
        return [f"{unfinished}."]
    if not _has_state(state):
        return [f"there is no state in {state}: run `selfcrag ingest PATH` to begin."]
    sentences = [await _problem_of_database(settings)]
    if unwritable := await asyncio.to_thread(why_unwritable, state):
        sentences.append(f"{state} cannot be written ({unwritable}): see to it that there is room.")
    try:
        await asyncio.to_thread(_check_database, state / IMAGES)
        images = dict(await asyncio.to_thread(ImageStore(state).keys))
    except (sqlite3.Error, IndexUnusable) as error:
        images = None
        sentences.append(
            f"{state / IMAGES}, the images of the documents, is damaged ({error}): restore a"
            " backup, or move the file away; texts stay. Documents that are deleted and brought in"
            " again bring their images along."
        )
    if not settings.index_url:
        try:
            documents = await _documents_of(state)
            if images is not None:
                sentences += await _problems_of_images(state, images, documents)
        except IndexMismatch as error:
            sentences.append(str(error))
        else:
            sentences += await asyncio.to_thread(_problems_of_uploads, state, documents)
    return [problem for problem in sentences if problem]


async def _problem_of_database(settings: StateSettings) -> str:
    url = database_url(settings)
    try:
        if url.get_backend_name() == "sqlite":
            await asyncio.to_thread(_check_database, Path(url.database or ""))
        else:
            async with open_engine(settings):
                pass
    except sqlite3.Error as error:
        return unusable(url, error)
    except StartFailed as error:
        return str(error)
    return ""


def _check_database(file: Path) -> None:
    """Raises sqlite3.Error where its pages are damaged."""
    if not file.exists():
        return
    with closing(sqlite3.connect(file)) as connection:
        (first,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if first != "ok":
            raise sqlite3.DatabaseError(f"malformed: {' '.join(str(first).split())[:100]}")


async def _documents_of(state: Path) -> list[StoredDocument]:
    """Of all owners, after the whole index was read. Raises IndexMismatch."""
    if not (state / INDEX).exists():
        return []
    await asyncio.to_thread(make_folder, state / INDEX)  # a file in its place is told
    lance = await asyncio.to_thread(import_module, LANCEDB)  # importing it takes a second
    documents: list[StoredDocument] = await lance.inspected(state / INDEX)
    return documents


async def _problems_of_images(
    state: Path, images: Mapping[str, str], documents: Sequence[StoredDocument]
) -> list[str]:
    """`images`: the documents of those that are kept, by their ids. Raises IndexUnusable."""
    sentences = []
    lance = import_module(LANCEDB)
    captioned = await lance.ids_with(state / INDEX, IMAGE_KEYWORD) if documents else []
    if lost := set(captioned) - images.keys():
        sentences.append(
            f"{len(lost)} images of documents are not in {state / IMAGES}: restore a backup, or"
            " delete these documents and bring them in again."
        )
    if left := set(images.values()) - {document.id for document in documents}:
        sentences.append(
            f"{state / IMAGES} holds images of {len(left)} documents that were deleted:"
            " `selfcrag ingest --reindex` removes them."
        )
    return sentences


def _problems_of_uploads(state: Path, documents: Sequence[StoredDocument]) -> list[str]:
    sentences = []
    folder = state / UPLOADS
    known = {document.path for document in documents if folder in Path(document.path).parents}
    files = {str(file) for file in _received(folder)}
    if lost := sorted(known - files):
        sentences.append(
            f"{len(lost)} uploaded documents have lost their files ({_named(lost)}): they are still"
            " found by questions; upload them again, or restore a backup."
        )
    if unread := sorted(files - known):
        sentences.append(
            f"{len(unread)} files in {folder} are in no document ({_named(unread)}): upload them"
            " again, or delete them."
        )
    return sentences


def _named(paths: Sequence[str]) -> str:
    names = [ascii(Path(path).name)[1:-1] if not path.isprintable() else Path(path).name
             for path in paths[:MAX_NAMED]]  # fmt: skip
    return ", ".join(names) + (", …" if len(paths) > MAX_NAMED else "")


def _elsewhere(settings: StateSettings) -> Iterator[str]:
    url = database_url(settings)
    if url.get_backend_name() != "sqlite":
        yield "Keys, runs and conversations are in PostgreSQL: use `pg_dump` and `pg_restore`."
    elif Path(url.database or "").absolute() != settings.data_dir / FILE:
        yield f"The database {url.database} is not in the state folder: copy it by itself."
    if settings.index_url:
        yield "The index is in Milvus: use the tools of Milvus."


def _has_state(state: Path) -> bool:
    return any((state / part).exists() for part in PARTS)


def _check_target(target: Path, state: Path) -> None:
    if target.exists() and (
        target.name.endswith(TAR) or not target.is_dir() or any(target.iterdir())
    ):
        raise BackupFailed(f"{target} is there already: name a new file or folder.")
    if not target.parent.is_dir():
        raise BackupFailed(f"there is no folder {target.parent} to put the backup in.")
    if state in Path(os.path.realpath(target)).parents:
        raise BackupFailed(f"{target} lies in the state folder: name a place outside of it.")


def _remove_abandoned(state: Path) -> None:
    for left in state.glob(f"{COPYING}*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)


def _copy_database(file: Path, copy: Path) -> None:
    """As of one moment, by SQLite's own backup; whoever writes meanwhile is not held up."""
    if file.exists():
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)


def _copy_knowledge(state: Path, copy: Path) -> None:
    """The manifests first: all that they name is there already, and stays as it is."""
    _copy_database(state / IMAGES, copy / IMAGES)
    if (state / INDEX).exists():
        make_folder(state / INDEX)  # a file in its place is told
    manifests = [file for file in _written(state / INDEX) if file.suffix == MANIFEST]
    _copy(manifests, state, copy, _link)
    others = [file for file in _written(state / INDEX) if VERSIONS not in file.parts]
    _copy(others, state, copy, _link)
    _copy(_received(state / UPLOADS), state, copy, _link)


def _copy(
    files: Iterable[Path],
    folder: Path,
    copy: Path,
    by: Callable[[Path, Path], object] = shutil.copyfile,
) -> None:
    for file in files:
        place = copy / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        by(file, place)


def _link(file: Path, place: Path) -> None:
    """The same file under another name: none of them is ever written to a second time."""
    with suppress(FileNotFoundError):  # cleaned away meanwhile
        try:
            os.link(file, place)
        except OSError:  # not on this file system
            shutil.copyfile(file, place)


def _files_below(folder: Path) -> list[Path]:
    return sorted(Path(at, name) for at, _, names in os.walk(folder) for name in names)


def _written(index: Path) -> list[Path]:
    """Without what is still being written, which has a passing name with a number."""
    return [file for file in _files_below(index) if "#" not in file.name]


def _received(uploads: Path) -> list[Path]:
    """Without what is still being received."""
    return [
        file
        for file in _files_below(uploads)
        if not file.relative_to(uploads).parts[0].startswith(INCOMING)
    ]


def _parts_of(backup: Path) -> list[Path]:
    """Its files, that which makes it whole last."""
    parts = [backup / name for name in (*PARTS, ABOUT)]
    return [file for part in parts for file in ([part] if part.is_file() else _files_below(part))]


def _write(copy: Path, target: str) -> None:
    if target == STREAM:
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", dereference=True) as tar:
            _fill(tar, copy)
        return
    place = Path(target)
    with TemporaryDirectory(
        prefix=f".{place.name}.", dir=place.parent, ignore_cleanup_errors=True
    ) as folder:
        written = Path(folder, place.name)
        if place.name.endswith(TAR):
            with tarfile.open(
                written, "w" if place.suffix == ".tar" else "w:gz", dereference=True
            ) as tar:
                _fill(tar, copy)
        else:
            _copy(_parts_of(copy), copy, written)
        _hide(Path(folder))
        os.sync()
        written.rename(place)


def _fill(tar: tarfile.TarFile, folder: Path) -> None:
    for file in _parts_of(folder):
        tar.add(file, file.relative_to(folder).as_posix(), filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(mode=0o600, uid=0, gid=0, uname="", gname="", deep=False)


def _hide(folder: Path) -> None:
    """From all other users."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _unpack(source: str, folder: Path) -> None:
    """Raises BackupFailed where `source` is no whole tar."""
    try:
        if source == STREAM:
            with tarfile.open(fileobj=sys.stdin.buffer, mode="r|*") as tar:
                tar.extractall(folder, filter=_extractable)
        elif Path(source).is_dir():
            _copy(_parts_of(Path(source)), Path(source), folder)
        else:
            with tarfile.open(source) as tar:
                tar.extractall(folder, filter=_extractable)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise BackupFailed(f"{source} is no whole backup ({reason}).") from error
    _hide(folder)


def _extractable(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    is_part = member.isfile() and member.name.split("/")[0] in {*PARTS, ABOUT}
    return tarfile.data_filter(member, folder) if is_part else None


async def _checked(folder: Path, source: str, settings: StateSettings) -> Summary:
    """Raises BackupFailed where what was unpacked could not be used."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if about["format"] > FORMAT:
            raise BackupFailed(
                f"{source} was made by a later version of self-crag: update this one."
            )
        expected = about["uploads"], about["has_database"]
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise BackupFailed(f"{source} is no whole backup: {ABOUT} cannot be read.") from error
    try:
        summary = await _summary(folder, settings)
    except (IndexUnusable, sqlite3.Error) as error:
        raise BackupFailed(
            f"the backup {source} is damaged ({type(error).__name__}): take an earlier one."
        ) from error
    if expected != (summary.uploads, summary.has_database):
        raise BackupFailed(f"the backup {source} lacks files: take an earlier one.")
    return summary


def _assert_unused(file: Path) -> None:
    """Raises BackupFailed where a service has the database open."""
    if not file.exists():
        return
    with closing(sqlite3.connect(file, timeout=1)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:  # any other is why it is replaced
            if "locked" in str(error):
                raise BackupFailed(
                    f"a service uses {file.parent}: stop it, and restore then."
                ) from error


def _exchange(unpacked: Path, state: Path) -> None:
    """All parts or none; meanwhile, and after a kill on the way, nothing opens the state."""
    marker, replaced = state / RESTORING, Path(mkdtemp(prefix=REPLACED, dir=state))
    with ExitStack() as undo:
        if not marker.exists():
            undo.callback(marker.unlink, missing_ok=True)
        marker.touch(mode=0o600)
        os.sync()
        for name in (*PARTS, *BESIDE):
            for start, end in ((state, replaced), (unpacked, state)):
                if (start / name).exists():
                    (start / name).rename(end / name)
                    undo.callback((end / name).rename, start / name)
        os.sync()
        undo.pop_all()
    marker.unlink()
    for left in (*state.glob(f"{REPLACED}*"), *state.glob(f"{UNPACKED}*")):
        shutil.rmtree(left, ignore_errors=True)
