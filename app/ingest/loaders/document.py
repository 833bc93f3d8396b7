"""A loaded document: its title and its blocks of text, or why it is refused."""

import hashlib
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

# No document is larger, whichever way it comes in.
MAX_BYTES = 20_000_000
# Formats whose parsers can be led astray: they are read where time and memory are bounded.
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif"})
BINARY = frozenset({".pdf", ".docx"})
SUFFIXES = (
    BINARY
    | IMAGES
    | {
        *(".md", ".markdown", ".txt", ".text", ".html", ".htm"),
        *(".csv", ".tsv", ".jsonl", ".ndjson", ".json"),
    }
)


SIDECARS = (".txt", ".md")
"""What an image's file name ends in where a text beside it tells its caption."""


_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*:|[/\\]")


class DocumentRefused(Exception):
    """The document does not become part of the knowledge base; `reason` is told to the user.

    `may_pass`: not for what the document is, but because it could not be had, as in an outage.
    """

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.may_pass = reason, may_pass


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that a document shows: its bytes, or what it is referred to by.

    `caption` is empty where its author gave none.
    """

    caption: str
    reference: str = ""
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list item, entry, table or listing, and the headings it stands under.

    A listing and a table are cut at line ends only, and only where they are too long. An entry is
    a defined term with what is said of it: "term: text"; what follows in it has the term as its
    last heading. `page` counts from 1, where the document has pages. A `picture` stands for itself:
    its text is what it is called.
    """

    text: str
    headings: tuple[str, ...] = ()
    kind: Literal["text", "code", "table"] = "text"
    page: int | None = None
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """`sha256` and `bytes` are those of the file."""

    title: str
    blocks: list[Block]
    sha256: str
    bytes: int


def local_path(reference: str) -> str:
    """The relative path that an image is referred to by; empty where it is an address."""
    if _ADDRESS.match(reference):
        return ""
    return unquote(re.split(r"[?#]", reference, maxsplit=1)[0])


def check_suffix(path: Path, more: Collection[str] = ()) -> None:
    """Raises DocumentRefused where no loader reads such a file, nor one of the user's choice."""
    if path.suffix.lower() not in SUFFIXES and path.suffix.lower() not in more:
        known = " ".join(sorted(SUFFIXES | set(more)))
        raise DocumentRefused(f"unknown kind of file: {path.suffix or path.name}; known: {known}")


def read(path: Path) -> bytes:
    """The file's content. Raises DocumentRefused."""
    try:
        # Pipes and devices would be waited for, or read, without end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise DocumentRefused("cannot be read: not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        may_pass = not isinstance(error, (FileNotFoundError, NotADirectoryError))
        reason = f"cannot be read: {error.strerror or error}"
        raise DocumentRefused(reason, may_pass=may_pass) from error
    if len(content) > MAX_BYTES:
        raise DocumentRefused(f"too large: more than {MAX_BYTES / 1e6:.0f} MB; split it")
    return content


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sidecar_of(image: Path) -> Path | None:
    """The file beside an image that tells its caption: `a.png.txt` before `a.txt`, or None."""
    if image.suffix.lower() not in IMAGES:
        return None
    names = [image.name + end for end in SIDECARS] + [image.stem + end for end in SIDECARS]
    beside = (image.with_name(name) for name in names)
    return next((file for file in beside if file.is_file() and not file.is_symlink()), None)


def digest_of(path: Path, content: bytes) -> str:
    """What a document is known by: an image by its caption, too."""
    sidecar = sidecar_of(path)
    return digest(content + b"\0" + read(sidecar)) if sidecar else digest(content)
