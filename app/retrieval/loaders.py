"""Files to documents: Markdown, plain text, HTML and PDF."""

import hashlib
import logging
import stat
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from charset_normalizer import from_bytes
from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents.base import Blob
from pypdf.errors import FileNotDecryptedError, PyPdfError

from app.retrieval.chunk import Block
from app.retrieval.markup import TooNested, html_blocks, markdown_blocks, text_blocks

# Its warnings are about damage that is either repaired or refused with a reason.
logging.getLogger("pypdf").setLevel(logging.ERROR)

MAX_BYTES = 20_000_000
BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# Tried in this order where a file is not UTF-8.
LEGACY_ENCODINGS = ["gb18030", "big5", "cp1252"]


class DocumentRefused(Exception):
    """The file does not become part of the knowledge base; `reason` is told to the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    blocks: list[Block]
    sha256: str
    bytes: int


def read(path: Path) -> bytes:
    """The file's content. Raises DocumentRefused."""
    try:
        # Pipes and devices would be waited for, or read, without end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise DocumentRefused("cannot be read: not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DocumentRefused(f"cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise DocumentRefused(f"too large: more than {MAX_BYTES / 1e6:.0f} MB; split it")
    return content


def load(path: Path, content: bytes) -> Document:
    """The document in `content`, understood by the suffix of `path`. Raises DocumentRefused."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = " ".join(sorted(READERS))
        raise DocumentRefused(f"unknown kind of file: {path.suffix or path.name}; known: {known}")
    if not content.strip():
        raise DocumentRefused("empty")
    try:
        title, blocks = reader(content)
    except (TooNested, RecursionError) as error:
        raise DocumentRefused("nested too deeply or too long to be read; split it") from error
    blocks = [block for block in blocks if block.text.strip()]
    if not blocks:
        raise DocumentRefused("no text in it")
    return Document(
        title=" ".join((title or path.stem).split()),
        blocks=blocks,
        sha256=digest(content),
        bytes=len(content),
    )


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def decode(content: bytes) -> str:
    """Text in UTF-8 or a Chinese or Western legacy encoding. Raises DocumentRefused."""
    for mark, encoding in BOMS.items():
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    if b"\0" in content:
        raise DocumentRefused("binary data, not text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        best = from_bytes(content, cp_isolation=LEGACY_ENCODINGS).best()
    if best is None:
        raise DocumentRefused("its encoding is not known; save it as UTF-8")
    return str(best)


def read_pdf(content: bytes) -> tuple[str, list[Block]]:
    try:
        pages = list(_pdf_parser().lazy_parse(Blob.from_data(content)))
    except FileNotDecryptedError as error:
        raise DocumentRefused("encrypted PDF: save it without a password") from error
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DocumentRefused("damaged PDF: it cannot be parsed") from error
    text = "\n".join(page.page_content for page in pages)
    if not text.strip():
        raise DocumentRefused("PDF without text, such as a scan: run text recognition on it first")
    return str(pages[0].metadata.get("title", "")).strip(), text_blocks(text)


@cache
def _pdf_parser() -> BaseBlobParser:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*langchain-community", DeprecationWarning)
        # Takes most of a second, which only those who read a PDF should wait for.
        from langchain_community.document_loaders.parsers.pdf import (  # noqa: PLC0415
            PyPDFParser,
        )
    return PyPDFParser()


def read_markdown(content: bytes) -> tuple[str, list[Block]]:
    return markdown_blocks(decode(content))


def read_html(content: bytes) -> tuple[str, list[Block]]:
    return html_blocks(decode(content))


def read_text(content: bytes) -> tuple[str, list[Block]]:
    return "", text_blocks(decode(content))


READERS: Mapping[str, Callable[[bytes], tuple[str, list[Block]]]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_text,
    ".text": read_text,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
}
