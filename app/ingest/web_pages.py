"""Web pages as documents: one URL, downloaded through the guarded page reader."""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.ingest.loaders.document import BINARY, SUFFIXES, DocumentRefused
from app.websearch.html_text import decode
from app.websearch.page import HTML_TYPES, PLAIN_TYPES, Download, PageReader
from app.websearch.ssrf_guard import PageFailed

MAX_PAGE_BYTES = 10_000_000
PAGE_TIMEOUT_S = 20.0
TOO_MANY_REQUESTS = 429
# By the media type that is sent; else by the end of the address.
SUFFIX_OF = (
    dict.fromkeys(HTML_TYPES, ".html")
    | dict.fromkeys(PLAIN_TYPES, ".txt")
    | {
        "text/markdown": ".md",
        "text/csv": ".csv",
        "text/tab-separated-values": ".tsv",
        "application/json": ".json",
        "application/x-ndjson": ".jsonl",
        "application/pdf": ".pdf",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    }
)
UNNAMED = re.compile(r"[^\w.-]+")


def page_reader(allowed_private_hosts: Collection[str] = ()) -> PageReader:
    """Reads pages of any kind; close it with `aclose`."""
    return PageReader(
        allowed_private_hosts=allowed_private_hosts,
        max_bytes=MAX_PAGE_BYTES,
        timeout_s=PAGE_TIMEOUT_S,
        media_types=(),
    )


@asynccontextmanager
async def downloaded(url: str, reader: PageReader) -> AsyncIterator[Path]:
    """The page as a file that any loader reads. Raises DocumentRefused."""
    try:
        download = await reader.download(url)
    except PageFailed as failure:
        may_pass = not 400 <= failure.status < 500 or failure.status == TOO_MANY_REQUESTS
        raise DocumentRefused(str(failure), may_pass=may_pass) from None
    if len(download.body) >= MAX_PAGE_BYTES:
        raise DocumentRefused(f"too large: {MAX_PAGE_BYTES / 1e6:.0f} MB or more")
    suffix = SUFFIX_OF.get(download.media_type, Path(urlsplit(url).path).suffix.lower())
    if suffix not in SUFFIXES:
        raise DocumentRefused(f"is of a kind that cannot be read: {download.media_type}")
    with tempfile.TemporaryDirectory(prefix="selfcrag-page-") as folder:
        file = Path(folder, _name(url) + suffix)
        await asyncio.to_thread(file.write_bytes, _readable(download, suffix))
        yield file


def _readable(download: Download, suffix: str) -> bytes:
    """Text in UTF-8, whatever its server or the page itself says of its encoding."""
    kind, _, options = download.content_type.casefold().partition(";")
    is_declared = "charset" in options and suffix not in BINARY
    if not is_declared and kind.strip() not in HTML_TYPES | PLAIN_TYPES:
        return download.body
    return decode(download.body, download.content_type).encode("utf-8-sig", "replace")


def _name(url: str) -> str:
    """What a page without a title is called."""
    parts = urlsplit(url)
    last = Path(unquote(parts.path)).stem or (parts.hostname or "")
    return UNNAMED.sub("-", last)[:60].strip("-.") or "page"
