"""PDF loader: paragraphs with their page, by pypdf."""

import logging
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents.base import Blob
from pypdf.errors import FileNotDecryptedError

from app.ingest.loaders.document import Block, DocumentRefused
from app.ingest.loaders.markup import SENTENCE_END, text_blocks, unwrapped

# Its warnings are about damage that is either repaired or refused with a reason.
logging.getLogger("pypdf").setLevel(logging.ERROR)

MAX_PAGES = 5000


def read_pdf(content: bytes) -> tuple[str, list[Block]]:
    """Title and blocks. Raises DocumentRefused."""
    title, pages = "", []
    try:
        for page in _parser().lazy_parse(Blob.from_data(content)):
            title = title or str(page.metadata.get("title", "")).strip()
            pages.append(page.page_content)
            if len(pages) > MAX_PAGES:
                raise DocumentRefused(f"more than {MAX_PAGES:,} pages; split it")
    except FileNotDecryptedError as error:
        raise DocumentRefused("encrypted PDF: save it without a password") from error
    except (DocumentRefused, MemoryError):
        raise
    # pypdf says of damage whatever Python says of it.
    except Exception as error:
        raise DocumentRefused("damaged PDF: it cannot be parsed") from error
    blocks = page_blocks(pages)
    if not blocks:
        raise DocumentRefused("PDF without text, such as a scan: run text recognition on it first")
    return title, blocks


def page_blocks(pages: Iterable[str]) -> list[Block]:
    """Paragraphs with their page; one that goes on over the page's end stays one, of its first."""
    blocks: list[Block] = []
    for number, text in enumerate(pages, start=1):
        here = [replace(block, page=number) for block in text_blocks(text)]
        if blocks and here and not SENTENCE_END.search(blocks[-1].text):
            whole = unwrapped([*blocks[-1].text.split("\n"), *here[0].text.split("\n")])
            blocks[-1] = replace(blocks[-1], text=whole)
            here = here[1:]
        blocks += here
    return blocks


@cache
def _parser() -> BaseBlobParser:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*langchain-community", DeprecationWarning)
        from langchain_community.document_loaders.parsers.pdf import (  # noqa: PLC0415
            PyPDFParser,
        )
    return PyPDFParser()
