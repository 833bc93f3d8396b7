"""Sitemaps: which addresses they name."""

import zlib
from urllib.parse import urljoin, urlsplit

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from app.ingest.errors import DocumentRefused
from app.websearch.page import Download


def parsed(sitemap: Download, most_bytes: int) -> tuple[str, list[str]]:
    """(urlset or sitemapindex, the addresses in it), unpacked to less than `most_bytes`.

    Raises DocumentRefused.
    """
    body = sitemap.body
    try:
        if body.startswith(b"\x1f\x8b"):
            body = zlib.decompressobj(wbits=31).decompress(body, most_bytes)
            if len(body) >= most_bytes:
                raise too_large(most_bytes)
        root = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, zlib.error, ValueError) as error:
        raise DocumentRefused("is no sitemap that can be read safely") from error
    kind = _local(root.tag)
    if kind not in {"urlset", "sitemapindex"}:
        raise DocumentRefused("is no sitemap")
    entries = (child for entry in root for child in entry if _local(child.tag) == "loc")
    addresses = ((entry.text or "").strip() for entry in entries)
    return kind, list(filter(None, addresses))


def too_large(most_bytes: int) -> DocumentRefused:
    return DocumentRefused(f"too large: {most_bytes / 1e6:.0f} MB or more")


def joined(sitemap: str, address: str) -> str:
    """The whole address; empty where it can be none."""
    try:
        return urljoin(sitemap, address)
    except ValueError:
        return ""


def host_of(url: str) -> str:
    return urlsplit(url).netloc.casefold()


def _local(tag: object) -> str:
    return str(tag).rpartition("}")[2]
