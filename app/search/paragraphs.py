"""Text out of pages: which encoding, which paragraphs, and which pages are not worth the risk."""

import re
from codecs import BOM_UTF8, getincrementaldecoder
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.search.guard import PageFailed

# A paragraph counts when it is longer than this.
SHORT_PARAGRAPH = 10

_HIDDEN = (
    *("nav", "footer", "aside", "form", "dialog", "template", "iframe", "textarea", "select"),
    *("[hidden]", '[aria-hidden="true"]', '[role="navigation"]'),
    *('[style*="display:none"]', '[style*="display: none"]'),
    *("sup.reference", ".mw-editsection"),
)
# Written out, for lexbor's `:is(…) p` misses all but children.
_IN_HIDDEN = ", ".join(f"{outer} {inner}" for outer in _HIDDEN for inner in ("p", "h1"))
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_WITHIN = 4096
_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
_CHINESE = re.compile(r"[\u3400-\u9fff]")

# Names on the web and the codec that reads them; no other codec is ever looked up by name.
_CODECS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "windows-1252": "cp1252",
    "windows-1251": "cp1251",
    "iso-8859-2": "iso8859-2",
    "iso-8859-15": "iso8859-15",
    "koi8-r": "koi8-r",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "big5-hkscs": "big5hkscs",
    "shift_jis": "cp932",
    "euc-jp": "euc_jp",
    "euc-kr": "cp949",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}

# The HTML standard has a parser walk the open elements at every tag and open forgotten
# formatting elements again in every paragraph: time and memory grow with tags x depth, and with
# the square of a tag's attributes. Ordinary pages stay far below these bounds.
_MOST_TAGS = 150_000
_MOST_DEPTH_WALKED = 20_000_000
_MOST_REOPENED = 1_000_000
_MOST_ATTRIBUTES = 300
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s<>/]*)([^<>]*)")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# Comparisons in scripts look like tags; unclosed ones take the rest along, so this stays linear.
_UNREAD = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|noscript)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
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


@dataclass(frozen=True, slots=True)
class Extract:
    """`title` is the page's first h1; it also begins each of the paragraphs."""

    title: str
    paragraphs: tuple[str, ...]


def decode(body: bytes, content_type: str) -> str:
    """The text of a page whose last character may be cut off; never fails."""
    if body.startswith(BOM_UTF8):
        return body.decode("utf-8-sig", errors="replace")
    declared = _HEADER_CHARSET.search(content_type)
    in_page = _META_CHARSET.search(body[:_META_WITHIN])
    names = [declared.group(1)] if declared else []
    names += [in_page.group(1).decode("ascii", errors="replace")] if in_page else []
    for name in names:
        if codec := _CODECS.get(name.casefold()):
            return body.decode(codec, errors="replace")
    for codec in ("utf-8", "gb18030"):
        try:
            return getincrementaldecoder(codec)().decode(body, final=False)
        except UnicodeDecodeError:
            continue
    return body.decode("cp1252", errors="replace")


def html_paragraphs(html: str, most: int, most_characters: int) -> Extract:
    """The visible `<p>` of a page. Raises PageFailed for one that is built to exhaust a parser."""
    html = _UNREAD.sub(" ", html)
    if not is_cheap_to_parse(html):
        raise PageFailed("is nested too deeply to be read safely")
    tree = LexborHTMLParser(html)
    hidden = {node.mem_id for node in tree.css(", ".join(_HIDDEN))}
    within_hidden = {node.mem_id for node in tree.css(_IN_HIDDEN)} | hidden
    headings = (node for node in tree.css("h1") if node.mem_id not in within_hidden)
    title = next(filter(None, (_visible_text(node, hidden) for node in headings)), "")
    texts = (
        _visible_text(node, hidden) for node in tree.css("p") if node.mem_id not in within_hidden
    )
    return Extract(title, _bounded(texts, title, most, most_characters))


def plain_paragraphs(text: str, most: int, most_characters: int) -> Extract:
    """Blocks between blank lines; plain text has no title."""
    texts = (_clean(block) for block in re.split(r"\n[ \t\r]*\n", text))
    return Extract("", _bounded(texts, "", most, most_characters))


def is_cheap_to_parse(html: str) -> bool:
    """Whether a parser's work on `html` is bounded; one linear pass, no tree."""
    still_open: Counter[str] = Counter()
    depth = formatting = walked = reopened = 0
    for tags, tag in enumerate(_TAG.finditer(html)):
        closing, name, attributes = tag.group(1), tag.group(2).casefold(), tag.group(3)
        walked += depth
        reopened += formatting
        if tags > _MOST_TAGS or walked > _MOST_DEPTH_WALKED or reopened > _MOST_REOPENED:
            return False
        if len(attributes) > _MOST_ATTRIBUTES and _attribute_count(attributes) > _MOST_ATTRIBUTES:
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


def _visible_text(node: LexborNode, hidden: set[int]) -> str:
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
            ahead.append(here.first_child)
    return _clean("".join(pieces))


def _clean(text: str) -> str:
    return " ".join(_UNSEEN.sub("", text).split())


def _bounded(texts: Iterable[str], title: str, most: int, most_characters: int) -> tuple[str, ...]:
    prefix = f"{title}{'：' if _CHINESE.search(title) else ': '}" if title else ""
    kept: list[str] = []
    room = most_characters
    for text in texts:
        if len(kept) >= most or room <= SHORT_PARAGRAPH:
            break
        if len(text) > SHORT_PARAGRAPH:
            kept.append(prefix + text[:room])
            room -= len(text)
    return tuple(kept)
