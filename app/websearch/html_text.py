"""HTML to text: what of a page is seen, its paragraphs, and which pages are not worth the risk."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.websearch import encoding

# A paragraph counts when it is longer than this.
SHORT_PARAGRAPH = 10
# What a page carries beside its own text, and what it does not show.
HIDDEN = (
    *("nav", "footer", "aside", "form", "dialog", "template", "iframe", "textarea", "select"),
    *("script", "style", "noscript", "svg", "button"),
    *("[hidden]", '[aria-hidden="true"]', '[role="navigation"]'),
    *('[style*="display:none"]', '[style*="display: none"]'),
    *("sup.reference", ".mw-editsection"),
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
    declared = (header.group(1) if header else "", encoding.declared_charset(body))
    text = encoding.decode(body, *declared)
    return body.decode("cp1252", errors="replace") if text is None else text


def parsed(html: str) -> LexborHTMLParser:
    """The page as a tree. Raises TooNested for one that is built to exhaust a parser."""
    html = _UNREAD.sub(" ", html)
    if not is_cheap_to_parse(html):
        raise TooNested
    return LexborHTMLParser(html)


def hidden_elements(page: LexborHTMLParser) -> set[int]:
    """The ids of the elements that HIDDEN names."""
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
    kept: list[str] = []
    room = max_chars
    for text in texts:
        if len(kept) >= max_paragraphs or room <= SHORT_PARAGRAPH:
            break
        if len(text) > SHORT_PARAGRAPH:
            kept.append(prefix + text[:room])
            room -= len(text)
    return tuple(kept)
