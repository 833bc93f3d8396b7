"""Files of an ingest: which there are, how each is named, and which are new, changed or gone."""

import glob
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from urllib.parse import urldefrag

from app.ingest.loaders.document import (
    DocumentRefused,
    check_suffix,
    digest_of,
    read,
    sidecar_of,
)
from app.retrieval.document_paths import SHARED_FOLDER, UPLOADS
from app.retrieval.index import StoredDocument


@dataclass(frozen=True, slots=True)
class Listed:
    """A file by its absolute `path`, links resolved, and what the index holds of it.

    A page of the web has no path, its URL as source, and a file that is yet to be downloaded.
    Images that it refers to are read below the folder `root`, none where that is empty.
    """

    file: Path
    path: str
    source: str
    stored: StoredDocument | None
    owner: str = ""
    is_page: bool = False
    root: str = ""

    @property
    def shown(self) -> str:
        return shown(self.source)


class StateFolder:
    """The service's own files: of these only the shared uploads are for everyone to read."""

    def __init__(self, folder: Path) -> None:
        uploads = folder / UPLOADS
        self._own = tuple(os.path.join(os.path.realpath(own), "") for own in (folder, uploads))
        self._shared = os.path.join(os.path.realpath(uploads / SHARED_FOLDER), "")

    def keeps(self, path: str) -> bool:
        """Whether a file or folder, links resolved, is not for everyone."""
        place = os.path.join(path, "")
        return place.startswith(self._own) and not place.startswith(self._shared)

    def private_paths(self, paths: Sequence[Path]) -> list[Path]:
        return [path for path in paths if self.keeps(os.path.realpath(path))]


def listed(
    paths: Sequence[Path], known: Sequence[StoredDocument], state: StateFolder
) -> list[Listed]:
    """Every file at or below `paths` once, however many links lead to it.

    Links out of a folder are left out: whoever may put one there may not read where it leads.
    """
    by_path = {document.path: document for document in known if document.path}
    by_source = {document.source: document for document in known}
    files: dict[str, Listed] = {}
    for path in paths:
        for file in files_below(path):
            real = os.path.realpath(file)
            if real not in files and not state.keeps(real) and not _leads_out(file, path):
                named = _named(file, real, by_path.get(real), by_source)
                files[real] = replace(named, root=_images_root(path))
    sidecars = {os.path.realpath(it) for file in files if (it := sidecar_of(Path(file)))}
    return [item for real, item in files.items() if real not in sidecars]


def _images_root(path: Path) -> str:
    """A file that is named itself may show what lies in its folder."""
    root = _root(path)
    return root if os.path.isdir(root) else os.path.dirname(root)


def links_out(paths: Sequence[Path]) -> list[Path]:
    """The links below `paths` to files and folders that are not below the same path."""
    return [
        link
        for path in paths
        for link in [*files_below(path), *_folder_links(path)]
        if _leads_out(link, path)
    ]


def _leads_out(file: Path, path: Path) -> bool:
    """A path that is named itself may be a link."""
    return file != path and not _is_below(os.path.realpath(file), _root(path))


def _is_below(real: str, root: str) -> bool:
    return real.startswith(os.path.join(root, ""))


def _root(path: Path) -> str:
    """The folder, links resolved, that a path or pattern names."""
    if _is_pattern(path):
        named = list(takewhile(lambda part: not glob.has_magic(part), path.parts))
        path = Path(*named)
    return os.path.realpath(path)


def _is_pattern(path: Path) -> bool:
    return glob.has_magic(str(path)) and not os.path.lexists(path)


def _folder_links(path: Path) -> Iterator[Path]:
    for folder, folders, _ in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (it for name in folders if (it := Path(folder, name)).is_symlink())


def listed_pages(urls: Sequence[str], known: Sequence[StoredDocument]) -> list[Listed]:
    by_source = {document.source: document for document in known}
    pages = dict.fromkeys(urldefrag(url).url for url in urls)
    return [Listed(Path(), "", url, by_source.get(url), is_page=True) for url in pages]


def files_below(path: Path) -> Iterator[Path]:
    """`path` itself, or the files below it in a fixed order, hidden ones left out.

    A path that does not exist and holds `*`, `?` or `[` is a pattern; `**` is any depth.
    """
    if _is_pattern(path):
        for match in sorted(glob.iglob(str(path), recursive=True)):
            yield from [Path(match)] if os.path.isfile(match) else ()
        return
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))


def is_url(name: str) -> bool:
    return name.lower().startswith(("http://", "https://"))


def shown(name: str) -> str:
    """As any terminal can print it; a file name need not be UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def at_or_below(
    paths: Sequence[str | Path], known: Sequence[StoredDocument]
) -> list[StoredDocument]:
    roots = {os.path.realpath(path) for path in paths}
    return [
        document
        for document in known
        if document.path and roots & {document.path, *map(str, Path(document.path).parents)}
    ]


def missing(
    paths: Sequence[Path],
    known: Sequence[StoredDocument],
    items: Sequence[Listed],
    state: StateFolder,
) -> list[StoredDocument]:
    """Documents of `paths` without a file that all may read, and that `items` do not name now."""
    moved = {item.stored.id for item in items if item.stored is not None and not is_gone(item.path)}
    return [
        document
        for document in at_or_below(paths, known)
        if document.id not in moved and (is_gone(document.path) or state.keeps(document.path))
    ]


def is_gone(path: str) -> bool:
    """Whether nothing is there; what may merely not be seen counts as being there."""
    try:
        os.stat(path)
    except OSError as error:
        return isinstance(error, (FileNotFoundError, NotADirectoryError))
    return False


def _named(
    file: Path, path: str, stored: StoredDocument | None, by_source: dict[str, StoredDocument]
) -> Listed:
    """Its source is its path below the working directory, and stays wherever it is read again.

    A source that another existing file has is left to that file.
    """
    if stored is not None:
        return Listed(file, path, stored.source, stored)
    absolute, working = Path(path), Path.cwd()
    is_below = working in absolute.parents
    source = (absolute.relative_to(working) if is_below else absolute).as_posix()
    other = by_source.get(source)
    if other is not None and other.path and not is_gone(other.path):
        return Listed(file, path, path, None)
    return Listed(file, path, source, other)


@dataclass(frozen=True, slots=True)
class RefusedFile:
    source: str
    reason: str


@dataclass(slots=True)
class Report:
    """Sources by what became of them; `chunks` counts those written in this run.

    `missing` are the documents that stay though their file is not there any more.
    """

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    chunks: int = 0
    took_s: float = 0.0

    @property
    def nothing_read(self) -> bool:
        return not (self.added or self.updated or self.skipped or self.removed)


def changed_bytes(item: Listed, chunking: str, suffixes: Collection[str] = ()) -> int | None:
    """The size of a file to be read, None of one stored as it is. Raises DocumentRefused.

    `suffixes` are known beside those that everybody knows.
    """
    file, stored = item.file, item.stored
    if item.path != shown(item.path):
        raise DocumentRefused("its path is not UTF-8; rename it")
    if not (item.path and is_gone(item.path)):
        check_suffix(file, suffixes)
    content = read(file)
    is_stored = (
        stored is not None
        and stored.chunking in {"", chunking}
        and (stored.path, stored.sha256) == (item.path, digest_of(file, content))
    )
    return None if is_stored else len(content)


def judged(
    item: Listed, refusal: DocumentRefused, known: Sequence[StoredDocument], prune: bool | None
) -> tuple[RefusedFile | None, list[StoredDocument]]:
    """The refusal as it is reported, and what goes from the index with it where asked to `prune`.

    An outage lets nothing go. `prune` None: nobody can ask for it.
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
