"""Encodings of the web: how a text is marked, what a page declares, and which codec reads it."""

import re

BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
META = re.compile(rb"<meta\s[^>]{0,300}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
META_WITHIN = 4096
# Names on the web and the codec that reads them; no other codec is ever looked up by name.
CODECS = {
    **dict.fromkeys(("utf-8", "utf8"), "utf-8"),
    **{"utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"},
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb18030"), "gb18030"),
    **dict.fromkeys(("big5", "big5-hkscs"), "big5hkscs"),
    **dict.fromkeys(("shift_jis", "x-sjis"), "cp932"),
    **{"euc-jp": "euc_jp", "euc-kr": "cp949"},
    **dict.fromkeys(("ascii", "us-ascii", "latin1", "iso-8859-1"), "cp1252"),
    **{f"iso-8859-{part}": f"iso8859-{part}" for part in range(2, 17) if part != 12},
    **{f"windows-{page}": f"cp{page}" for page in (874, *range(1250, 1259))},
    **{"koi8-r": "koi8-r", "koi8-u": "koi8-u"},
}


def marked(text: bytes) -> str:
    """The codec that its first bytes tell; empty where they tell none."""
    return next((codec for mark, codec in BOMS.items() if text.startswith(mark)), "")


def codec_of(name: str) -> str:
    """The codec of that name; empty where none is known to be of the web's."""
    return CODECS.get(name.strip().casefold(), "")


def declared_charset(page: bytes) -> str:
    """What the page says in its head; empty where it says nothing that can be true."""
    found = META.search(page[:META_WITHIN])
    name = found.group(1).decode("ascii", "replace") if found else ""
    # In UTF-16 the declaration itself could not have been read.
    return "" if codec_of(name).startswith("utf-16") else name
