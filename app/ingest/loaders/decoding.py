"""Which encoding a text is in: as its first bytes mark it, UTF-8, as it declares, or likeliest."""

from app.ingest.errors import DocumentRefused
from app.websearch.encoding import codec_of, is_utf_8, likely, marked, read


def decode(content: bytes, declared: str = "") -> str:
    """Text as it is marked, else UTF-8, as `declared`, or a Chinese or Western legacy encoding.

    Raises DocumentRefused.
    """
    if mark := marked(content):
        return content.decode(mark, errors="replace")
    if b"\0" in content:
        raise DocumentRefused("binary data, not text")
    codec = codec_of(declared)
    # Old declarations stay in pages that were made UTF-8 long since; others are hardly ever valid.
    if not codec or is_utf_8(content) or read(content, codec) is None:
        codec = likely(content)
    if not codec:
        raise DocumentRefused("its encoding is not known; save it as UTF-8")
    return content.decode(codec, errors="replace")
