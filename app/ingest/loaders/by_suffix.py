"""Files to documents, by their suffix."""

import hashlib
import logging
import re
import stat
import struct
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents.base import Blob
from pypdf.errors import FileNotDecryptedError, PyPdfError

from app.ingest.chunker import Block
from app.ingest.errors import DocumentRefused
from app.ingest.loaders.decoding import decode
from app.ingest.loaders.docx import read_docx
from app.ingest.loaders.markup import (
    SENTENCE_END,
    TooNested,
    html_blocks,
    markdown_blocks,
    text_blocks,
    unwrapped,
)
from app.ingest.loaders.tables import record_file, record_lines, table_blocks
from app.ingest.upload_settings import MAX_BYTES
from app.websearch.encoding import declared_charset

# Its warnings are about damage that is either repaired or refused with a reason.
logging.getLogger("pypdf").setLevel(logging.ERROR)

MOST_PAGES = 5000
DAMAGED_PDF = (
    *(PyPdfError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError),
    *(NotImplementedError, AssertionError, OverflowError, ZeroDivisionError, struct.error),
)
# Halves of a character, which records may hold as escapes. No other encoding has them.
HALVES = re.compile(r"[\ud800-\udfff]")


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
        may_pass = not isinstance(error, (FileNotFoundError, NotADirectoryError))
        reason = f"cannot be read: {error.strerror or error}"
        raise DocumentRefused(reason, may_pass=may_pass) from error
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
    except (DocumentRefused, MemoryError):
        raise
    # No document, whatever a parser makes of it, keeps the others out.
    except Exception as error:
        raise DocumentRefused(f"cannot be parsed ({type(error).__name__})") from error
    blocks = [_whole_block(block) for block in blocks if block.text.strip()]
    if not blocks:
        raise DocumentRefused("no text in it")
    return Document(
        title=_whole(" ".join((title or path.stem).split())),
        blocks=blocks,
        sha256=digest(content),
        bytes=len(content),
    )


def _whole_block(block: Block) -> Block:
    headings = tuple(map(_whole, block.headings))
    return replace(block, text=_whole(block.text), headings=headings)


def _whole(text: str) -> str:
    return HALVES.sub("\N{REPLACEMENT CHARACTER}", text)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_pdf(content: bytes) -> tuple[str, list[Block]]:
    title, pages = "", []
    try:
        for page in _pdf_parser().lazy_parse(Blob.from_data(content)):
            title = title or str(page.metadata.get("title", "")).strip()
            pages.append(page.page_content)
            if len(pages) > MOST_PAGES:
                raise DocumentRefused(f"more than {MOST_PAGES:,} pages; split it")
    except FileNotDecryptedError as error:
        raise DocumentRefused("encrypted PDF: save it without a password") from error
    except DAMAGED_PDF as error:
        raise DocumentRefused("damaged PDF: it cannot be parsed") from error
    blocks = page_blocks(pages)
    if not blocks:
        raise DocumentRefused("PDF without text, such as a scan: run text recognition on it first")
    return title, blocks


def page_blocks(pages: Iterable[str]) -> list[Block]:
    """Paragraphs with their page; one that goes on over the page's end stays one, of its first."""
    blocks: list[Block] = []
    for number, text in enumerate(pages, start=1):
        found = [replace(block, page=number) for block in text_blocks(text)]
        if blocks and found and not SENTENCE_END.search(blocks[-1].text):
            whole = unwrapped([*blocks[-1].text.split("\n"), *found[0].text.split("\n")])
            blocks[-1] = replace(blocks[-1], text=whole)
            found = found[1:]
        blocks += found
    return blocks


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
    return html_blocks(decode(content, declared_charset(content)))


def read_text(content: bytes) -> tuple[str, list[Block]]:
    return "", text_blocks(decode(content))


def read_table(content: bytes) -> tuple[str, list[Block]]:
    return "", table_blocks(decode(content))


def read_tab_separated(content: bytes) -> tuple[str, list[Block]]:
    return "", table_blocks(decode(content), delimiter="\t")


def read_record_lines(content: bytes) -> tuple[str, list[Block]]:
    return "", record_lines(decode(content))


def read_records(content: bytes) -> tuple[str, list[Block]]:
    return "", record_file(decode(content))


# Formats whose parsers can be led astray: they are read where time and memory are bounded.
BINARY = frozenset({".pdf", ".docx"})
READERS: Mapping[str, Callable[[bytes], tuple[str, list[Block]]]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_text,
    ".text": read_text,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".csv": read_table,
    ".tsv": read_tab_separated,
    ".jsonl": read_record_lines,
    ".ndjson": read_record_lines,
    ".json": read_records,
}
