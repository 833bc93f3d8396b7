"""Which encoding a text is in: as its first bytes mark it, as it declares, or as is likeliest."""

import re

from charset_normalizer import from_bytes

from app.ingest.refusal import DocumentRefused

BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# Tried in this order where a file is not UTF-8.
LEGACY_ENCODINGS = ["gb18030", "big5", "cp1252"]
META = re.compile(rb"<meta\s[^>]{0,300}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
META_WITHIN = 4096
# What the web calls an encoding, where that is not what reads it; others only if known to be one.
CODECS = {
    **dict.fromkeys(("gb2312", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("ascii", "us-ascii", "latin1", "iso-8859-1"), "cp1252"),
    **{"big5": "big5hkscs", "shift_jis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949"},
}
KNOWN = re.compile(
    r"utf-?8|gb18030|big5-hkscs|euc-jp|koi8-[ru]|windows-(?:125\d|874)|iso-8859-\d{1,2}"
)


def decode(content: bytes, declared: str = "") -> str:
    """Text as it is marked or `declared`, else UTF-8 or a Chinese or Western legacy encoding.

    Raises DocumentRefused.
    """
    for mark, encoding in BOMS.items():
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    if b"\0" in content:
        raise DocumentRefused("binary data, not text")
    for codec in (_codec(declared), "utf-8"):
        try:
            if codec:
                return content.decode(codec)
        except (UnicodeDecodeError, LookupError):
            continue
    best = from_bytes(content, cp_isolation=LEGACY_ENCODINGS).best()
    if best is None:
        raise DocumentRefused("its encoding is not known; save it as UTF-8")
    return str(best)


def declared_charset(html: bytes) -> str:
    """What the page says in its head; empty where it says nothing."""
    found = META.search(html[:META_WITHIN])
    return found.group(1).decode("ascii", "replace") if found else ""


def _codec(name: str) -> str:
    """The codec of that name; empty where none is known to be of the web's."""
    name = name.strip().casefold()
    return CODECS.get(name) or (name if KNOWN.fullmatch(name) else "")
