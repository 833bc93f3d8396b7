"""Loader registry: files to documents, by their suffix."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

from app.ingest.loaders.document import (
    IMAGES,
    Block,
    DocumentRefused,
    LoadedDocument,
    Picture,
    check_suffix,
    digest_of,
    local_path,
    read,
    sidecar_of,
)
from app.ingest.loaders.markup import html_blocks, markdown_blocks, text_blocks
from app.ingest.loaders.tables import record_file, record_lines, table_blocks
from app.websearch.html_text import TooNested, declared_charset, decoded, marked
from graphs.text.model_output import printable

MAX_CAPTION_CHARS = 2000


def load(path: Path, content: bytes, loader: str = "") -> LoadedDocument:
    """The document in `content`, understood by the suffix of `path`. Raises DocumentRefused.

    A `loader` of the user's choice reads the file itself instead.
    """
    if not loader:
        check_suffix(path)
    if not content.strip():
        raise DocumentRefused("empty")
    try:
        title, blocks = _by(loader, path) if loader else _reader_of(path)(content)
    except (TooNested, RecursionError) as error:
        raise DocumentRefused("nested too deeply or too long to be read; split it") from error
    except (DocumentRefused, MemoryError):
        raise
    # No document, whatever a parser makes of it, keeps the others out.
    except Exception as error:
        raise DocumentRefused(f"cannot be parsed ({type(error).__name__})") from error
    blocks = [
        replace(block, text=_name_of(block.picture, number)) if block.picture else block
        for number, block in enumerate(blocks, start=1)
    ]
    blocks = [
        replace(block, text=printable(block.text), headings=tuple(map(printable, block.headings)))
        for block in blocks
    ]
    blocks = [block for block in blocks if block.text.strip()]
    if not blocks:
        raise DocumentRefused("no text in it")
    return LoadedDocument(
        title=printable(" ".join((title or path.stem).split())),
        blocks=blocks,
        sha256=digest_of(path, content),
        bytes=len(content),
    )


Reader = Callable[[bytes], tuple[str, list[Block]]]


def _reader_of(path: Path) -> Reader:
    suffix = path.suffix.lower()
    return partial(_image, path) if suffix in IMAGES else READERS[suffix]


def _image(path: Path, content: bytes) -> tuple[str, list[Block]]:
    """An image file as a document of one image; the text beside it is its caption."""
    sidecar = sidecar_of(path)
    caption = " ".join(_text(read(sidecar)).split()) if sidecar else ""
    picture = Picture(caption[:MAX_CAPTION_CHARS], path.name, content)
    title = " ".join(re.split(r"[\W_]+", path.stem)).strip()
    return title, [Block(caption, picture=picture)]


def _name_of(picture: Picture, number: int) -> str:
    """What an image is called: its caption, else its file's name, else the block's number."""
    stem = re.split(r"[\W_]+", Path(local_path(picture.reference)).stem)
    return picture.caption or " ".join(stem).strip() or f"image {number}"


def _by(loader: str, path: Path) -> tuple[str, list[Block]]:
    """By a document loader of LangChain's, given as `package.module.Class`.

    It runs where files of binary formats are read: apart from the service, within bounds of time
    and memory. Pages of a document count from 0 in LangChain, from 1 here.
    """
    from langchain_core.document_loaders import BaseLoader  # noqa: PLC0415 -- takes a while

    module, _, class_name = loader.rpartition(".")
    try:
        reader = getattr(import_module(module), class_name)(str(path))
    except (ImportError, AttributeError) as error:
        why = " ".join(str(error).split())
        raise DocumentRefused(f"its loader {loader} cannot be used: {why}") from error
    if not isinstance(reader, BaseLoader):
        raise DocumentRefused(f"its loader {loader} is not a LangChain document loader")
    title, blocks = "", list[Block]()
    for document in reader.lazy_load():
        value, page = document.metadata.get("title"), document.metadata.get("page")
        title = title or (value if isinstance(value, str) else "")
        number = page + 1 if isinstance(page, int) else None
        blocks += [replace(block, page=number) for block in text_blocks(document.page_content)]
    return title, blocks


def _office(reader: str, content: bytes) -> tuple[str, list[Block]]:
    """By a reader of `office`, which takes most of a second to import."""
    title, blocks = getattr(import_module("app.ingest.loaders.office"), reader)(content)
    return title, blocks


def _text(content: bytes, declared: str = "") -> str:
    """The text in it. Raises DocumentRefused."""
    if b"\0" in content and not marked(content):
        raise DocumentRefused("binary data, not text")
    text = decoded(content, declared)
    if text is None:
        raise DocumentRefused("its encoding is not known; save it as UTF-8")
    return text


READERS: Mapping[str, Reader] = {
    **dict.fromkeys((".md", ".markdown"), lambda content: markdown_blocks(_text(content))),
    **dict.fromkeys((".txt", ".text"), lambda content: ("", text_blocks(_text(content)))),
    **dict.fromkeys(
        (".html", ".htm"),
        lambda content: html_blocks(_text(content, declared_charset(content))),
    ),
    ".pdf": partial(_office, "read_pdf"),
    ".docx": partial(_office, "read_docx"),
    ".csv": lambda content: ("", table_blocks(_text(content))),
    ".tsv": lambda content: ("", table_blocks(_text(content), delimiter="\t")),
    **dict.fromkeys((".jsonl", ".ndjson"), lambda content: ("", record_lines(_text(content)))),
    ".json": lambda content: ("", record_file(_text(content))),
}
