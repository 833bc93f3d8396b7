"""Text decoding: by byte order mark, by declared charset, else by the likeliest encoding."""

import re
from codecs import getincrementaldecoder
from collections import Counter

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

# Nearly all signs of a Chinese text are so encoded, and few of one that is read in the wrong
# encoding: punctuation and the first of two levels of characters.
COMMON = {
    "gb18030": re.compile(rb"[\xa1\xa3\xb0-\xd7][\xa1-\xfe]|\xa9[\xa4-\xef]"),
    "big5hkscs": re.compile(rb"[\xa1-\xc6][@-~\xa1-\xfe]"),
}
MIN_COMMON_SHARE = 0.6
ALONE = re.compile(r"(?<![^\x00-\x7f])[^\x00-\x7f](?![^\x00-\x7f])")
# A text in UTF-8 may have one broken byte to so many whole characters.
WHOLE_TO_BROKEN = 20
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f\x7f]")
MAX_CONTROLS_SHARE = 0.01
# All but the space that does not break, which French has within its quotes.
ACCENTED = re.compile(rb"[\x80-\x9f\xa1-\xff]+")


def decode(content: bytes, *declared: str) -> str | None:
    """The text, whose last character may be cut off; None where its encoding is not known.

    A byte order mark counts most, then UTF-8, then the first of the `declared` charsets that is
    known. What the codec cannot read becomes U+FFFD.
    """
    if mark := marked(content):
        return content.decode(mark, errors="replace")
    codec = next(filter(None, map(codec_of, declared)), "")
    # English in UTF-16 is valid UTF-8. Other old declarations stay in pages that were made UTF-8
    # long since, and are hardly ever valid.
    is_utf_16 = codec.startswith("utf-16")
    if not codec or (not is_utf_16 and (is_utf_8(content) or read(content, codec) is None)):
        codec = likely(content) or codec
    if not codec:
        return None
    return getincrementaldecoder(codec)(errors="replace").decode(content)


def marked(text: bytes) -> str:
    """The codec that its first bytes tell; empty where they tell none."""
    return next((codec for mark, codec in BOMS.items() if text.startswith(mark)), "")


def codec_of(name: str) -> str:
    """The codec of that name; empty where none is known to be of the web's."""
    return CODECS.get(name.strip().casefold(), "")


def declared_charset(page: bytes) -> str:
    """What the page says in its head; empty where it says nothing that can be true."""
    meta = META.search(page[:META_WITHIN])
    name = meta.group(1).decode("ascii", "replace") if meta else ""
    # In UTF-16 the declaration itself could not have been read.
    return "" if codec_of(name).startswith("utf-16") else name


def likely(text: bytes) -> str:
    """The codec of bytes that tell none and may be cut off within a character; empty for no text.

    Libraries that guess were measured: they miss a Chinese name in English, and damaged UTF-8.
    """
    if is_utf_8(text):
        return "utf-8"
    if len(CONTROL.findall(text)) > MAX_CONTROLS_SHARE * len(text):
        return ""
    shares = {codec: _common_share(text, codec) for codec in COMMON}
    chinese = max(shares, key=shares.__getitem__)
    if shares[chinese] >= MIN_COMMON_SHARE:
        return chinese
    # Western letters with accents are few in a row; in other alphabets they make whole words.
    rows = ACCENTED.findall(text)
    is_western = 2 * sum(len(row) <= 2 for row in rows) >= len(rows)
    return "cp1252" if is_western and read(text, "cp1252") is not None else ""


def read(text: bytes, codec: str) -> str | None:
    """The text but for a last character that is cut off; None where the codec cannot read it."""
    try:
        return getincrementaldecoder(codec)().decode(text)
    except UnicodeDecodeError:
        return None


def is_utf_8(text: bytes) -> bool:
    """Whether all of it is, or nearly all, with characters of more than one byte among it."""
    whole = read(text, "utf-8")
    if whole is not None:
        return text.isascii() or not whole.isascii()
    whole = text.decode(errors="ignore")
    broken = len(text) - len(whole.encode())
    return len(whole) - len(whole.encode("ascii", "ignore")) >= WHOLE_TO_BROKEN * broken


def _common_share(text: bytes, codec: str) -> float:
    """How much is common of what is not ASCII; 0 where the codec cannot read the text."""
    signs = read(text, codec) or ""
    total = common = 0
    # An accented letter and the plain one after it are a sign of Big5, too: "Änderung".
    alone = Counter(ALONE.findall(signs))
    for sign, count in Counter(signs).items():
        if sign.isascii():
            continue
        pair = sign.encode(codec, errors="ignore")
        total += count
        if COMMON[codec].fullmatch(pair):
            common += count - (alone[sign] if pair[1] < 0x80 else 0)
    return common / max(1, total)
