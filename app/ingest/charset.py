"""Which encoding a text is in: as its first bytes mark it, UTF-8, as it declares, or likeliest."""

from charset_normalizer import from_bytes

from app.ingest.refusal import DocumentRefused
from app.search.charset import codec_of, marked

# Tried in this order where a file is not UTF-8.
LEGACY_ENCODINGS = ["gb18030", "big5", "cp1252"]


def decode(content: bytes, declared: str = "") -> str:
    """Text as it is marked, else UTF-8, as `declared`, or a Chinese or Western legacy encoding.

    Raises DocumentRefused.
    """
    if mark := marked(content):
        return content.decode(mark, errors="replace")
    if b"\0" in content:
        raise DocumentRefused("binary data, not text")
    # Old declarations stay in pages that were made UTF-8 long since; others are hardly ever valid.
    for codec in filter(None, ("utf-8", codec_of(declared))):
        try:
            return content.decode(codec)
        except UnicodeDecodeError:
            continue
    best = from_bytes(content, cp_isolation=LEGACY_ENCODINGS).best()
    if best is None:
        raise DocumentRefused("its encoding is not known; save it as UTF-8")
    return str(best)
