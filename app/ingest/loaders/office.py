"""PDF and Word loaders; importing them takes most of a second, which those who need none save."""

import logging
import re
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from io import BytesIO
from itertools import islice
from typing import Any

import mammoth
from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents.base import Blob
from pypdf import PdfReader
from pypdf.errors import FileNotDecryptedError

from app.ingest.loaders.document import Block, DocumentRefused, Picture
from app.ingest.loaders.markup import SENTENCE_END, html_blocks, text_blocks, unwrapped

# Its warnings are about damage that is either repaired or refused with a reason.
logging.getLogger("pypdf").setLevel(logging.ERROR)

MAX_PAGES = 5000
# What a file may unpack to. The declared sizes bind: zipfile reads no byte more than declared.
MAX_UNPACKED_BYTES = 150_000_000
MAX_RATIO = 200
# Small files of a few repeated words pack better than any bomb of interest.
RATIO_FROM = 10_000_000
MAX_PDF_IMAGES, MAX_PDF_PIXELS = 200, 120_000_000
IMAGE_OBJECT = re.compile(rb"/Subtype\s*/Image\b")
CAPTION = re.compile(r"^[ \t]*(?:fig(?:ure)?\b|[图圖])\.?\s*\d.*$", re.IGNORECASE | re.MULTILINE)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
EMBEDDED = "embedded:"
# Styles that mammoth's own list does not know.
STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_pdf(content: bytes) -> tuple[str, list[Block]]:
    """Title and blocks. Raises DocumentRefused."""
    try:
        pages = list(islice(_pdf_parser().lazy_parse(Blob.from_data(content)), MAX_PAGES + 1))
        if len(pages) > MAX_PAGES:
            raise DocumentRefused(f"more than {MAX_PAGES:,} pages; split it")
    except FileNotDecryptedError as error:
        raise DocumentRefused("encrypted PDF: save it without a password") from error
    except (DocumentRefused, MemoryError):
        raise
    # pypdf says of damage whatever Python says of it.
    except Exception as error:
        raise DocumentRefused("damaged PDF: it cannot be parsed") from error
    pictures = _pdf_pictures(content, [page.page_content for page in pages])
    title = next((str(page.metadata.get("title", "")).strip() for page in pages), "")
    blocks = page_blocks(page.page_content for page in pages)
    if not blocks:
        raise DocumentRefused("PDF without text, such as a scan: run text recognition on it first")
    return title, [*blocks, *pictures]


def _pdf_pictures(content: bytes, texts: Sequence[str]) -> list[Block]:
    """Images of the first pages, as far as they can be had; captions are lines such as `Fig. 1`.

    The n-th caption of a page is taken for that of its n-th image.
    """
    if not IMAGE_OBJECT.search(content):  # such objects stand in no compressed stream
        return []
    blocks: list[Block] = []
    pixels = 0
    reader = PdfReader(BytesIO(content))
    for number, (page, text) in enumerate(zip(reader.pages, texts, strict=False), start=1):
        captions = [" ".join(match[0].split()) for match in CAPTION.finditer(text)]
        named = page.get("/Resources", {}).get_object().get("/XObject", {}).get_object()
        for name in named:
            try:
                item = named[name]
                pixels += int(item.get("/Width", 0)) * int(item.get("/Height", 0))
                if item.get("/Subtype") != "/Image":
                    continue
                if pixels > MAX_PDF_PIXELS or len(blocks) >= MAX_PDF_IMAGES:
                    return blocks
                image = page.images[name].data
            except MemoryError:
                raise
            # An image that cannot be had takes no text along.
            except Exception:  # noqa: BLE001
                continue
            at = sum(block.page == number for block in blocks)
            caption = captions[at] if at < len(captions) else ""
            picture = Picture(caption, content=image)
            blocks.append(Block(caption, page=number, picture=picture))
    return blocks


@cache
def _pdf_parser() -> BaseBlobParser:
    with warnings.catch_warnings():  # it announces its own end of life when it is imported
        warnings.filterwarnings("ignore", ".*langchain-community", DeprecationWarning)
        from langchain_community.document_loaders.parsers.pdf import (  # noqa: PLC0415
            PyPDFParser,
        )
    return PyPDFParser()


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


def read_docx(content: bytes) -> tuple[str, list[Block]]:
    """Headings, lists, tables and pictures by way of HTML. Raises DocumentRefused."""
    if content.startswith(OLE):
        raise DocumentRefused("encrypted, or an old Word file; save it as .docx without a password")
    embedded: list[bytes] = []

    def placeholder(image: Any) -> dict[str, str]:
        with image.open() as opened:
            embedded.append(opened.read())
        return {"src": f"{EMBEDDED}{len(embedded) - 1}"}

    try:
        _measure(content)
        html = mammoth.convert_to_html(
            BytesIO(content),
            style_map=STYLES,
            include_embedded_style_map=False,
            convert_image=mammoth.images.img_element(placeholder),
        ).value
    except (DocumentRefused, MemoryError, RecursionError):
        raise
    # mammoth says of damage whatever Python says of it; its XML parser has errors of its own.
    except Exception as error:
        raise DocumentRefused("damaged Word file: it cannot be parsed") from error
    title, blocks = html_blocks(f"<body>{html}</body>")
    return title, [_with_content(block, embedded) for block in blocks]


def _with_content(block: Block, embedded: Sequence[bytes]) -> Block:
    if block.picture is None:
        return block
    number = int(block.picture.reference.removeprefix(EMBEDDED))
    return replace(block, picture=Picture(block.picture.caption, content=embedded[number]))


def _measure(content: bytes) -> None:
    """Raises DocumentRefused for a file that would unpack to too much; expat bounds entities."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        if unpacked > MAX_UNPACKED_BYTES or unpacked > max(RATIO_FROM, MAX_RATIO * len(content)):
            raise DocumentRefused(
                f"would unpack to {unpacked / 1e6:,.0f} MB; a Word file may have"
                f" {MAX_UNPACKED_BYTES / 1e6:.0f} MB and {MAX_RATIO} times its size"
            )
        if any(part.flag_bits & 1 for part in parts):
            raise DocumentRefused("encrypted Word file: save it without a password")
