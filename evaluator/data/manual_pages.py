"""Pages of manuals as blocks: HTML, Mallard (GNOME's help) and man pages.

The other two forms become HTML first. Lists and tables are kept as lines of text.
"""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from html import escape
from textwrap import dedent

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_LINKED = 0.7
"""A block with more of its characters in links is navigation."""
MAX_TAG = 120
"""Characters of an entry that DocBook wrote as a paragraph of a man page."""

_SPACE = re.compile(r"\s+")
_CHINESE_JOINT = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) (?=[\u3000-\u9fff\uff00-\uffef])")
_SYNTAX = re.compile(r"\s\?|\?[A-Za-z.]")


@dataclass(frozen=True, slots=True)
class PageBlock:
    """`kind` is heading (of a level), entry (and its end), code, item (a line) or text."""

    kind: str
    text: str
    level: int = 0
    linked: bool = False


def is_question(text: str) -> bool:
    """Whether it ends with a question mark that is not part of a syntax."""
    return text[-1:] in {"?", "？"} and not _SYNTAX.search(text)


def blocks_of(name: str, text: str) -> list[PageBlock]:
    """The blocks of a page in reading order; the form is told by the file's name."""
    if name.endswith(".page"):
        text = mallard_as_html(text)
    elif ".htm" not in name:
        text = man_as_html(text)
    return _HtmlReader().read(text)


_SKIPPED = {
    *("aside", "button", "footer", "form", "head", "header", "img", "nav", "script", "select"),
    *("style", "sup", "svg"),
}
_SKIPPED_CLASSES = {
    *("anchor", "bottomlang", "contents", "docnav", "footer", "footnotes", "header", "headerlink"),
    *("indexterm", "linenos", "menu", "nav_table", "nav-panel", "navfooter", "navheader"),
    *("nosearch", "related", "sphinxsidebar", "toc", "toplang", "viewcode-link"),
}
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BREAKS = (
    *("article", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "figure"),
    *("hr", "li", "main", "ol", "p", "pre", "section", "summary", "table", "td", "th", "tr", "ul"),
)
_KINDS = {**dict.fromkeys(_BREAKS, "text"), **dict.fromkeys(_HEADINGS, "heading"), "dt": "entry"}
"""What the text of an element is; of others it is part of the line."""
_NOT_IN_A_ROW = ", ".join(("pre", "dl", "table", "ul", "ol", *_HEADINGS))


class _HtmlReader:
    def __init__(self) -> None:
        self.blocks: list[PageBlock] = []
        self.line: list[tuple[str, bool]] = []
        self.mark = ""

    def read(self, html: str) -> list[PageBlock]:
        """The page's blocks, below the heading that its `up` link names."""
        page = LexborHTMLParser(html)
        up = page.css_first("link[rel=up]")
        if up is not None and up.attributes.get("title"):
            self.blocks.append(PageBlock("heading", _plain(up.attributes["title"] or "")))
        if page.body is not None:
            self.visit(page.body, False, False)
        self.flush()
        return self.blocks

    def flush(self, kind: str = "text", level: int = 0) -> None:
        text = _plain("".join(part for part, _ in self.line)).strip("¶# |")
        linked = sum(len(part.strip()) for part, in_link in self.line if in_link)
        if text:
            is_linked = kind != "heading" and linked > MAX_LINKED * len(text)
            if kind == "text" and self.mark:
                kind, text, self.mark = "item", self.mark + text, ""
            self.blocks.append(PageBlock(kind, text, level, is_linked))
        self.line.clear()

    def visit(self, node: LexborNode, linked: bool, nested: bool) -> None:
        """`linked`: inside a link; `nested`: inside the text of an entry."""
        for child in node.iter(include_text=True):
            if child.tag == "-text":
                self.line.append((child.text_content or "", linked))
            elif not _is_skipped(child):
                self.element(child, linked, nested)

    def element(self, node: LexborNode, linked: bool, nested: bool) -> None:
        tag = node.tag or ""
        if kind := _KINDS.get(tag):
            self.flush()
            if (whole := _whole_block(node)) is not None:
                self.blocks.append(whole)
            else:
                self.block(node, tag, kind, linked, nested)
        else:
            self.visit(node, linked or (tag == "a" and "href" in node.attributes), nested)
            if tag == "br":
                self.line.append((" ", False))

    def block(self, node: LexborNode, tag: str, kind: str, linked: bool, nested: bool) -> None:
        if tag == "li":
            self.mark = _mark(node)
        self.visit(node, linked, nested or tag == "dd")
        level = int(tag[1]) if kind == "heading" else 0
        self.flush("item" if nested and kind == "entry" else kind, level)
        if tag == "li":
            self.mark = ""
        elif tag == "dl" and not nested:
            self.blocks.append(PageBlock("end", ""))


def _is_skipped(node: LexborNode) -> bool:
    classes = {*(node.attributes.get("class") or "").casefold().split()}
    return node.tag in _SKIPPED or bool(classes & _SKIPPED_CLASSES) or "hidden" in node.attributes


def _whole_block(node: LexborNode) -> PageBlock | None:
    """A listing, a row of a table of data, or a question that stands as a bold paragraph."""
    if node.tag == "pre":
        return PageBlock("code", dedent(node.text().strip("\n").rstrip()))
    if node.tag == "p":
        bold, text = node.css_first("b, strong"), node.text().strip()
        is_bold = bold is not None and is_question(text) and bold.text().strip() == text
        return PageBlock("heading", _plain(text), 6) if is_bold else None
    if node.tag != "tr" or node.css_first(_NOT_IN_A_ROW) is not None:
        return None
    cells = [text for cell in node.iter() if (text := _plain(cell.text()))]
    if node.attributes.get("class") == "question" and cells:
        return PageBlock("heading", cells[-1], 6)
    linked = len(node.css("a[href]")) >= len(cells)
    return PageBlock("item", " | ".join(cells), linked=linked)


def _mark(item: LexborNode) -> str:
    parent = item.parent
    if parent is None or parent.tag != "ol":
        return "- "
    items = [node.mem_id for node in parent.iter() if node.tag == "li"]
    return f"{items.index(item.mem_id) + 1}. "


def _plain(text: str) -> str:
    """One line, without blanks between Chinese characters."""
    return _CHINESE_JOINT.sub("", _SPACE.sub(" ", text).strip())


_MALLARD = {"steps": "ol", "list": "ul", "terms": "dl", "item": "li", "screen": "pre"}


def mallard_as_html(text: str) -> str:
    """Mallard, the pages of GNOME's help."""
    root = ET.fromstring(text)

    def rename(node: ET.Element, level: int, parent: str) -> None:
        tag = node.tag.rpartition("}")[2] if isinstance(node.tag, str) else "aside"
        for child in node:
            rename(child, level + (tag == "section"), tag)
        if tag == "title":
            level_tag = "dt" if parent == "item" else "p"
            node.tag = f"h{min(level, 6)}" if parent in {"page", "section"} else level_tag
        elif tag in {"info", "media"}:
            node.tag = "aside"
        elif tag == "link":
            node.tag = "a" if parent == "p" else "aside"
        elif tag == "code" and parent in {"page", "section", "item", "example", "listing"}:
            node.tag = "pre"
        elif tag == "item" and parent == "terms":
            node.tag = "div"
        else:
            node.tag = _MALLARD.get(tag, tag)

    rename(root, 1, "")
    return f"<body>{ET.tostring(root, encoding='unicode', method='html')}</body>"


_ROFF_ESCAPE = re.compile(
    r"\\(?:f(?:\[[^]]*\]|\(..|.)|s[+-]?\d+|[mkF]\[[^]]*\]|[hvwl]'[^']*'|n(?:\(..|.)|\".*|"
    r"\*?(?:\((?P<pair>..)|\[(?P<name>[^]]*)\])|\*(?P<one>.)|(?P<plain>.)|$)"
)
_ROFF_GLYPHS = {
    **dict.fromkeys(("aq", "cq", "oq"), "'"),
    **dict.fromkeys(("lq", "rq", "dq", 'L"', 'R"'), '"'),
    **dict.fromkeys(("em", "en", "--"), "–"),
    **{"bu": "•", "rs": "\\", "bs": "\\", "ha": "^", "ti": "~", "co": "©", "mu": "×", ">=": "≥"},
}
_ROFF_PLAIN = {**dict.fromkeys("&|^/,)%:cdut", ""), "e": "\\", "~": " ", "0": " ", "(": ""}


def _roff_text(roff: str) -> str:
    def glyph(escaped: re.Match[str]) -> str:
        name = escaped["pair"] or escaped["name"] or escaped["one"]
        if name is not None:
            return _ROFF_GLYPHS.get(name, "")
        return _ROFF_PLAIN.get(escaped["plain"] or "", escaped["plain"] or "")

    return escape(_ROFF_ESCAPE.sub(glyph, roff), quote=False)


_ROFF_WORD = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_ROFF_HEADINGS = {"TH": "h1", "SH": "h2", "SS": "h3"}
_FONTS = {"B", "I", "BR", "RB", "BI", "IB", "IR", "RI", "SM", "SB"}
_WORDS_APART = {"B", "I", "SM", "SB"}
_BULLETS = {"\\(bu", "\\[bu]", "*", "o", "-"}
_LISTING = {**dict.fromkeys(("nf", "EX", "Vb"), True), **dict.fromkeys(("fi", "EE", "Ve"), False)}


def man_as_html(text: str) -> str:
    """A page of the man macros, also as Pod and DocBook write them; "" for mdoc and links."""
    page = _ManReader()
    skipped = ""
    for raw in text.splitlines():
        macro, _, rest = raw[1:].partition(" ") if raw[:1] in {".", "'"} else ("", "", raw)
        if skipped:
            skipped = "" if raw.strip().endswith(skipped) else skipped
        elif macro in {"Dd", "so"}:
            return ""
        elif macro in {"de", "ig"}:
            skipped = ".."
        elif macro in {"if", "ie", "el"}:
            skipped = "\\}" if "\\{" in rest else ""
        elif macro or rest != raw[1:]:
            words = [a.replace('""', '"') or b for a, b in _ROFF_WORD.findall(rest)]
            page.read(macro, words, raw)
    page.close_list()
    return f"<body>{chr(10).join(page.html)}</body>"


class _ManReader:
    def __init__(self) -> None:
        self.html: list[str] = []
        self.awaited = ""  # the macro whose text is the next line
        self.listing = self.in_list = False

    def close_list(self) -> None:
        self.html += ["</dl>"] if self.in_list else []
        self.in_list = False

    def entry(self, tag: str) -> None:
        self.html += [] if self.in_list else ["<dl>"]
        self.html.append(f"<dt>{tag}</dt><dd>")
        self.in_list = True

    def read(self, macro: str, words: list[str], raw: str) -> None:
        if macro in {"TP", "TQ"} or (macro in _ROFF_HEADINGS and not words):
            self.awaited = macro
        elif macro in _ROFF_HEADINGS:
            self.heading(macro, words)
        elif not macro or macro in _FONTS:
            self.text(macro, words, raw)
        elif macro in _LISTING:
            opens = _LISTING[macro]
            self.html += [] if opens == self.listing else ["<pre>" if opens else "</pre>"]
            self.listing = opens
        elif macro == "RS":
            self.entry_before()
        elif macro == "IP" and words:
            self.marked(words[0])
        elif macro in {"PP", "P", "LP", "HP", "IP", "sp", "br"}:
            self.paragraph()

    def marked(self, mark: str) -> None:
        """An indented paragraph: an item behind a bullet, else an entry."""
        if mark in _BULLETS:
            self.paragraph("- ")
        else:
            self.entry(_roff_text(mark))

    def paragraph(self, mark: str = "") -> None:
        self.html.append("" if self.listing else f"<p>{mark}")

    def heading(self, macro: str, words: list[str]) -> None:
        self.close_list()
        title = words[0].lower() if macro == "TH" else " ".join(words)
        tag = _ROFF_HEADINGS[macro]
        self.html.append(f"<{tag}>{_roff_text(title)}</{tag}>")

    def text(self, macro: str, words: list[str], raw: str) -> None:
        joint = " " if macro in _WORDS_APART else ""
        line = _roff_text(joint.join(words) if macro else raw)
        awaited = self.awaited if line.strip() else ""
        if not awaited:
            self.html.append(line if line.strip() or self.listing else "<p>")
            return
        self.awaited = ""
        if awaited in _ROFF_HEADINGS:
            self.heading(awaited, words)
        else:
            self.entry(line)

    def entry_before(self) -> None:
        """DocBook's entry: a short paragraph before an indented one."""
        start = max((n for n, part in enumerate(self.html) if part.startswith("<p>")), default=-1)
        tag = " ".join(self.html[start + 1 :]).strip() if start >= 0 else ""
        if tag and len(tag) < MAX_TAG and "<" not in tag and tag[-1] not in ":：.。":
            del self.html[start:]
            self.entry(tag)
