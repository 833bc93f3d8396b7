"""Markdown, HTML and plain text to a title and blocks that know their headings."""

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.retrieval.chunk import Block
from app.retrieval.segment import word_set
from graphs.text import HAN

MARKDOWN = MarkdownIt("commonmark").enable("table")
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n(?:---|\.\.\.)\n", re.DOTALL)
FRONT_TITLE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)
# What a page carries beside its own text.
CHROME = list(word_set("script style noscript template nav footer aside form svg button iframe"))
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LEAVES = word_set("p li dt dd td th figcaption caption summary div blockquote section")
LIST_ITEM = re.compile(r"\s*(?:[-*+•·]|\d{1,3}[.)、]|[(（]\d{1,3}[)）])\s*\S")
SENTENCE_END = re.compile(r"[.!?。！？；;:：…][\"'”’」』）)\]]*$")
WIDE = re.compile(HAN.pattern + r"|[\u3000-\u303f\uff00-\uffef]")
# Shorter lines are taken as written on purpose, longer ones as wrapped by an editor.
WRAPPED_FROM = 40


class Outline:
    """The headings above the place that is being read."""

    def __init__(self) -> None:
        self.title = ""
        self._path: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> None:
        """The first heading of the highest level is the title and heads no section."""
        if not self.title and not self._path and level == 1:
            self.title = heading
            return
        self._path = [above for above in self._path if above[0] < level] + [(level, heading)]

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading for _, heading in self._path)


def markdown_blocks(text: str) -> tuple[str, list[Block]]:
    """Title and blocks in plain words: links become their text, emphasis goes."""
    text = text.replace("\r\n", "\n")
    outline, blocks = Outline(), []
    front = FRONT_MATTER.match(text)
    if front:
        named = FRONT_TITLE.search(front[1])
        outline.title = named[1] if named else ""
        text = text[front.end() :]
    tokens = MARKDOWN.parse(text)
    for at, token in enumerate(tokens):
        if token.type == "inline" and tokens[at - 1].type == "heading_open":
            outline.enter(int(tokens[at - 1].tag[1]), _plain(token))
        elif token.type == "inline" and tokens[at - 1].type == "paragraph_open":
            blocks.append(Block(_plain(token), outline.path))
        elif token.type in {"fence", "code_block"}:
            blocks.append(Block(token.content.rstrip("\n"), outline.path, whole=True))
        elif token.type == "table_open":
            blocks.append(Block(_table(tokens[at:]), outline.path, whole=True))
        elif token.type == "html_block":
            inner = LexborHTMLParser(token.content).text(separator=" ").strip()
            blocks.append(Block(" ".join(inner.split()), outline.path))
    return outline.title, blocks


def _plain(inline: Token) -> str:
    parts = []
    for child in inline.children or []:
        if child.type in {"text", "code_inline", "image"}:
            parts.append(child.content)
        elif child.type == "softbreak":
            parts.append("\n")
        elif child.type == "hardbreak":
            parts.append("\0")
    lines = "".join(parts).split("\0")
    return "\n".join(joined(line.split("\n")) for line in lines)


def _table(tokens: Sequence[Token]) -> str:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_plain(token))
    return "\n".join(" | ".join(row) for row in rows)


def html_blocks(text: str) -> tuple[str, list[Block]]:
    page = LexborHTMLParser(text)
    outline = Outline()
    named = page.css_first("title")
    page.strip_tags(CHROME, recursive=True)
    for header in page.css("header"):
        if header.css_first("h1") is None:
            header.decompose()
    root = page.css_first("main") or page.css_first("article") or page.body
    blocks = list(_walk(root, outline)) if root is not None else []
    return outline.title or (named.text(strip=True) if named is not None else ""), blocks


def _walk(node: LexborNode, outline: Outline) -> Iterator[Block]:
    """Blocks of `node` in reading order; text between block elements counts as a paragraph."""
    loose: list[str] = []

    def paragraph() -> Iterator[Block]:
        text = " ".join("".join(loose).split())
        loose.clear()
        if text:
            yield Block(text, outline.path)

    for child in node.iter(include_text=True):
        tag = child.tag or ""
        if tag in HEADINGS:
            yield from paragraph()
            outline.enter(HEADINGS[tag], " ".join(child.text().split()))
        elif tag == "pre":
            yield from paragraph()
            yield Block(child.text().strip("\n"), outline.path, whole=True)
        elif tag == "table":
            yield from paragraph()
            yield Block(_html_table(child), outline.path, whole=True)
        elif tag == "br":
            yield from paragraph()
        elif _holds_blocks(child):
            yield from paragraph()
            yield from _walk(child, outline)
            yield from paragraph()
        elif tag in LEAVES:
            yield from paragraph()
            loose.append(child.text())
            yield from paragraph()
        else:
            loose.append(child.text())
    yield from paragraph()


def _holds_blocks(node: LexborNode) -> bool:
    inner = ", ".join([*HEADINGS, "p", "li", "pre", "table", "div", "dt", "dd", "br"])
    return any(found.mem_id != node.mem_id for found in node.css(inner))


def _html_table(table: LexborNode) -> str:
    rows = [row.css("td, th") for row in table.css("tr")]
    lines = (" | ".join(" ".join(cell.text().split()) for cell in row) for row in rows)
    return "\n".join(line for line in lines if line.strip(" |"))


def text_blocks(text: str) -> list[Block]:
    """Paragraphs: what blank lines separate, with lines joined that an editor has wrapped."""
    paragraphs = re.split(r"\n[ \t\u3000]*\n", text.replace("\r\n", "\n").replace("\r", "\n"))
    joined = (unwrapped(paragraph.split("\n")) for paragraph in paragraphs)
    return [Block(paragraph) for paragraph in joined if paragraph]


def unwrapped(lines: Sequence[str]) -> str:
    """One line a paragraph, list item or short line; wrapped lines become one again."""
    text = ""
    previous = ""
    for line in (" ".join(line.split()) for line in lines):
        if not line:
            continue
        if not text:
            text = line
        elif LIST_ITEM.match(line) or SENTENCE_END.search(previous) or _is_short(previous):
            text += "\n" + line
        else:
            text = joined([text, line])
        previous = line
    return text


def joined(lines: Sequence[str]) -> str:
    """Wrapped lines as one: no space between ideographs, a word broken by a hyphen made whole."""
    text = ""
    for line in (" ".join(line.split()) for line in lines):
        if not text or not line:
            text += line
        elif re.search(r"[a-z]-$", text) and line[0].islower():
            text = text[:-1] + line
        else:
            wide = WIDE.match(text[-1]) and WIDE.match(line[0])
            text += ("" if wide else " ") + line
    return text


def _is_short(line: str) -> bool:
    width = sum(2 if HAN.match(character) else 1 for character in line)
    return width < WRAPPED_FROM
