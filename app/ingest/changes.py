"""Which documents have to be read: those that are new, changed, or cut another way now."""

from app.ingest.errors import DocumentRefused
from app.ingest.files import Listed, is_gone
from app.ingest.loaders.by_suffix import READERS, digest, load, read


def changed_bytes(item: Listed, chunking: str) -> int | None:
    """The size of a file to be read, None of one stored as it is. Raises DocumentRefused."""
    file, stored = item.file, item.stored
    if not _is_utf8(item.path):
        raise DocumentRefused("its path is not UTF-8; rename it")
    if file.suffix.lower() not in READERS and not (item.path and is_gone(item.path)):
        load(file, b"")  # tells what is known, without reading what is not
    content = read(file)
    is_stored = (
        stored is not None
        and stored.chunking in {"", chunking}
        and (stored.path, stored.sha256) == (item.path, digest(content))
    )
    return None if is_stored else len(content)


def _is_utf8(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
