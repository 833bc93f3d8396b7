"""Pages to text: the encoding of bytes, what of HTML is seen, and bounds on hostile markup."""

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

# A paragraph counts when it is longer than this.
SHORT_PARAGRAPH = 10
# What a page carries beside its own text, and what it does not show.
HIDDEN = (
    *("nav", "footer", "aside", "form", "dialog", "template", "iframe", "textarea", "select"),
    *("script", "style", "noscript", "svg", "button"),
    *("[hidden]", '[aria-hidden="true"]'),
    *(f'[role="{role}"]' for role in ("navigation", "search", "contentinfo", "complementary")),
    *('[style*="display:none"]', '[style*="display: none"]'),
    # Of MediaWiki; of DocBook, whose contents other generators call by the same name.
    *("sup.reference", ".mw-editsection", ".navheader", ".navfooter", ".toc"),
)
BLOCK_ELEMENTS = frozenset(
    {"p", "li", "dt", "dd", "td", "th", "figcaption", "caption", "summary", "div", "blockquote"}
    | {"section"}
)
# Written out, for lexbor's `:is(…) p` misses all but children.
_IN_HIDDEN = ", ".join(f"{outer} {inner}" for outer in HIDDEN for inner in ("p", "h1"))
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
_CHINESE = re.compile(r"[\u3400-\u9fff]")

# The HTML standard has a parser walk the open elements at every tag and open forgotten
# formatting elements again in every paragraph: time and memory grow with tags x depth, and with
# the square of a tag's attributes. Ordinary pages stay far below these bounds.
_MAX_TAGS = 150_000
_MAX_DEPTH_WALKED = 20_000_000
_MAX_REOPENED = 1_000_000
_MAX_ATTRIBUTES = 300
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s<>/]*)([^<>]*)")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# Comparisons in scripts look like tags; unclosed ones take the rest along, so this stays linear.
# Shapes of drawings (SVG) hold no text, and diagrams have thousands that nothing else would close.
_UNREAD = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|noscript)\b.*?(?:</\1\s*>|\Z)"
    r"|<(?:circle|ellipse|line|path|polygon|polyline|rect|stop|use)\b[^<>]*/>",
    re.IGNORECASE | re.DOTALL,
)
# Elements without content, and those that the next of their kind closes.
_NEVER_DEEP = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
    | {"track", "wbr", "p", "li", "dd", "dt"}
)
_FORMATTING = frozenset(
    {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong"}
    | {"tt", "u"}
)

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


class TooNested(Exception):
    """Reading the markup would take a parser time and memory without bound."""


@dataclass(frozen=True, slots=True)
class Extract:
    """`title` is the page's first h1; it also begins each of the paragraphs."""

    title: str
    paragraphs: tuple[str, ...]


def decode(body: bytes, content_type: str) -> str:
    """The text of a page; never fails."""
    header = _HEADER_CHARSET.search(content_type)
    declared = (header.group(1) if header else "", declared_charset(body))
    text = decoded(body, *declared)
    return body.decode("cp1252", errors="replace") if text is None else text


def parsed(html: str) -> LexborHTMLParser:
    """The page as a tree. Raises TooNested for one that is built to exhaust a parser."""
    html = _UNREAD.sub(" ", html)
    if not is_cheap_to_parse(html):
        raise TooNested
    return LexborHTMLParser(html)


def hidden_elements(page: LexborHTMLParser) -> set[int]:
    return {node.mem_id for node in page.css(", ".join(HIDDEN))}


def html_paragraphs(html: str, max_paragraphs: int, max_chars: int) -> Extract:
    """The visible `<p>` of a page. Raises TooNested."""
    tree = parsed(html)
    hidden = hidden_elements(tree)
    within_hidden = {node.mem_id for node in tree.css(_IN_HIDDEN)} | hidden
    headings = (node for node in tree.css("h1") if node.mem_id not in within_hidden)
    title = next(filter(None, (clean(visible_text(node, hidden)) for node in headings)), "")
    texts = (
        clean(visible_text(node, hidden))
        for node in tree.css("p")
        if node.mem_id not in within_hidden
    )
    return Extract(title, _bounded(texts, title, max_paragraphs, max_chars))


def plain_paragraphs(text: str, max_paragraphs: int, max_chars: int) -> Extract:
    """Blocks between blank lines; plain text has no title."""
    texts = (clean(block) for block in re.split(r"\n[ \t\r]*\n", text))
    return Extract("", _bounded(texts, "", max_paragraphs, max_chars))


def is_cheap_to_parse(html: str) -> bool:
    """Whether a parser's work on `html` is bounded; one linear pass, no tree."""
    still_open: Counter[str] = Counter()
    depth = formatting = walked = reopened = 0
    for tags, tag in enumerate(_TAG.finditer(html)):
        closing, name, attributes = tag.group(1), tag.group(2).casefold(), tag.group(3)
        walked += depth
        reopened += formatting
        if tags > _MAX_TAGS or walked > _MAX_DEPTH_WALKED or reopened > _MAX_REOPENED:
            return False
        if len(attributes) > _MAX_ATTRIBUTES and _attribute_count(attributes) > _MAX_ATTRIBUTES:
            return False
        step = -1 if closing else 1
        if name in _NEVER_DEEP or still_open[name] + step < 0:
            continue
        still_open[name] += step
        depth += step
        formatting += step if name in _FORMATTING else 0
    return True


def _attribute_count(attributes: str) -> int:
    return len(_QUOTED.sub("", attributes).replace("/", " ").split())


def visible_text(node: LexborNode, hidden: Collection[int], between: str = "") -> str:
    """The text in it, with `between` in front of each block element; line breaks stay."""
    if node.tag == "-text":
        return node.text()
    pieces: list[str] = []
    ahead = [node.first_child]
    while ahead:
        here = ahead.pop()
        if here is None:
            continue
        ahead.append(here.next)
        if here.tag == "-text":
            pieces.append(here.text())
        elif here.tag == "br":
            pieces.append("\n")
        elif here.mem_id not in hidden:
            if here.tag in BLOCK_ELEMENTS:
                pieces.append(between)
            ahead.append(here.first_child)
    return "".join(pieces)


def clean(text: str) -> str:
    """On one line, without characters that nobody sees."""
    return " ".join(_UNSEEN.sub("", text).split())


def _bounded(
    texts: Iterable[str], title: str, max_paragraphs: int, max_chars: int
) -> tuple[str, ...]:
    prefix = f"{title}{'：' if _CHINESE.search(title) else ': '}" if title else ""
    paragraphs: list[str] = []
    room = max_chars
    for text in texts:
        if len(paragraphs) >= max_paragraphs or room <= SHORT_PARAGRAPH:
            break
        if len(text) > SHORT_PARAGRAPH:
            paragraphs.append(prefix + text[:room])
            room -= len(text)
    return tuple(paragraphs)


def decoded(content: bytes, *declared: str) -> str | None:
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
