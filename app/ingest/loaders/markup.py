"""Markdown, HTML and plain text loaders: a title, and blocks that know their headings."""

import re
from collections.abc import Collection, Iterator, Sequence
from html import escape
from types import SimpleNamespace

from markdown_it import MarkdownIt, helpers
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.ingest.loaders.document import Block, Picture
from app.websearch.html_text import (
    BLOCK_ELEMENTS,
    clean,
    hidden_elements,
    parsed,
    visible_text,
)
from graphs.text.sentences import HAN

MARKDOWN = MarkdownIt("commonmark").enable("table")
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n(?:---|\.\.\.)\n", re.DOTALL)
FRONT_TITLE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
STANDING = BLOCK_ELEMENTS | {*HEADINGS, "pre", "table", "br"}
HOLDING = ", ".join([*HEADINGS, "p", "li", "pre", "table", "div", "dt", "dd", "br"])
LIST_ITEM = re.compile(r"\s*(?:[-*+•·]|\d{1,3}[.)、]|[(（]\d{1,3}[)）])\s*\S")
SENTENCE_END = re.compile(r"[.!?。！？；;:：…][\"'”’」』）)\]]*$")
# What stands beside a heading to be linked to, and what Markdown names it by.
ANCHOR = re.compile(r"\s*(?:[¶§#🔗]|\{#[\w.:-]+\})\s*$")
# Beside links of an index stand numbers at most, beside those of a table of values the values.
LETTER, SIGN = re.compile(r"[^\W\d_]"), re.compile(r"\w")
WIDE = re.compile(HAN.pattern + r"|[\u3000-\u303f\uff00-\uffef]")
# Shorter lines are taken as written on purpose, longer ones as wrapped by an editor.
WRAPPED_FROM = 40
# Links to other pages of a book, as generators of documentation mark them (HTML, link types).
STEPS = ", ".join(f'a[rel~="{kind}"]' for kind in ("next", "prev", "up", "contents", "index"))
MAX_LABELS = 20
"""Of links and images within each other; deeper ones are read as they are written."""


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
    outline = Outline()
    if front := FRONT_MATTER.match(text):
        named = FRONT_TITLE.search(front[1])
        outline.title = named[1] if named else ""
        text = text[front.end() :]
    # What is rendered here is as deep as the parser allows, so it needs no bound on hostile markup.
    page = LexborHTMLParser(MARKDOWN.render(text))
    blocks = list(_Page(page).walk(page.body, outline))
    return outline.title, blocks


def _image(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    """The picture, and its text, but for one that stands alone, where it is a caption at most."""
    token = tokens[at]
    says = any(it.type in {"text", "code_inline"} and it.content.strip() for it in tokens)
    given = {name: str(token.attrGet(name) or "") for name in ("src", "title")}
    given["alt"] = token.content
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in given.items() if value)
    return f"<img{attributes}>{escape(token.content) if says else ''}"


def _label_end(state: StateInline, start: int, _: bool = False) -> int:
    """Where the label of a link or image ends that begins at `start`; -1 where it does not.

    Brackets of a paragraph are matched once, in one pass. The parser itself reads on from each of
    them, and again from each within: 20 times over, where links in links are as deep as may be.
    """
    ends: dict[str, dict[int, int]] = state.env.setdefault("label_ends", {})
    if state.src not in ends:
        ends[state.src] = _label_ends(state)
    end = ends[state.src].get(start, -1)
    return end if end < state.posMax else -1


def _label_ends(state: StateInline) -> dict[int, int]:
    """By where it begins, the end of each label with fewer than MAX_LABELS others around a word."""
    before, most = state.pos, state.posMax
    state.pos, state.posMax = 0, len(state.src)
    ends: dict[int, int] = {}
    opened: list[tuple[int, int]] = []  # where, and how deep the labels in it are
    while state.pos < state.posMax:
        match state.src[state.pos]:
            case "[":
                opened.append((state.pos, 0))
            case "]" if opened:
                start, depth = opened.pop()
                if depth < MAX_LABELS:
                    ends[start] = state.pos
                if opened:
                    opened[-1] = (opened[-1][0], max(opened[-1][1], depth + 1))
            case "]" | "!":
                pass
            case _:  # code, markup and escaped signs as a whole
                state.md.inline.skipToken(state)
                continue
        state.pos += 1
    state.pos, state.posMax = before, most
    return ends


def _markup(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    """The words in a block of HTML, whatever tags it opens and leaves open."""
    return f"<p>{escape(parsed(tokens[at].content).text(separator=' '))}</p>"


MARKDOWN.helpers = SimpleNamespace(**vars(helpers) | {"parseLinkLabel": _label_end})  # type: ignore[assignment]
MARKDOWN.add_render_rule("image", _image)
MARKDOWN.add_render_rule("html_block", _markup)
MARKDOWN.add_render_rule("html_inline", lambda *_: "")


def html_blocks(text: str) -> tuple[str, list[Block]]:
    """Title and blocks of a page without its menus and forms. Raises TooNested."""
    page = parsed(text)
    named = page.css_first("title")
    root = page.css_first('main, [role="main"]') or page.css_first("article") or page.body
    outline = Outline()
    blocks = list(_Page(page).walk(root, outline))
    return outline.title or (named.text(strip=True) if named is not None else ""), blocks


class _Page:
    """What must be known of all elements before the page is walked, each found in one pass."""

    def __init__(self, page: LexborHTMLParser) -> None:
        self._holders = _above(page.css(HOLDING))
        # Tables around tables are there for the layout: their cells are read one by one.
        self._layout = _above(page.css("table"))
        titled = _above(page.css("h1"))
        self._hidden = hidden_elements(page)
        self._hidden |= {node.mem_id for node in page.css("header")} - titled
        self._linked = {link.mem_id for link in page.css("a[href]")}
        self._steps = {link.mem_id for link in page.css(STEPS)}
        self._mark = ""  # before the next paragraph: a list item's dash, an entry's term
        self._terms: list[str] = []  # whose entries are being read, outermost first

    def walk(self, root: LexborNode | None, outline: Outline) -> Iterator[Block]:
        """Blocks in reading order; text between block elements counts as a paragraph."""
        loose: list[LexborNode] = []
        ahead = [(root.iter(include_text=True), 0)] if root is not None else []
        while ahead:
            children, terms = ahead[-1]
            child = next(children, None)
            if child is None:
                ahead.pop()
                yield from self._paragraph(loose, outline)
                del self._terms[terms:]
                self._mark = ""
            elif child.mem_id in self._hidden:
                continue
            elif child.tag not in STANDING and child.mem_id not in self._holders:
                loose.append(child)
            else:
                yield from self._paragraph(loose, outline)
                depth = len(self._terms)
                self._enter(child)
                if self._is_inner(child):
                    ahead.append((child.iter(include_text=True), depth))
                else:
                    yield from self._block(child, outline)
                    if child.tag != "dt":
                        del self._terms[depth:]

    def _enter(self, node: LexborNode) -> None:
        """A list item has a dash before its first words, an entry its term."""
        if node.tag == "li":
            self._mark = "- "
        elif node.tag == "dd" and self._mark:
            self._terms.append(self._mark.removesuffix(": "))

    def _is_inner(self, node: LexborNode) -> bool:
        tag = node.tag or ""
        if tag == "table":
            return node.mem_id in self._layout
        return tag not in HEADINGS and tag not in ("pre", "dt") and node.mem_id in self._holders

    def _block(self, node: LexborNode, outline: Outline) -> Iterator[Block]:
        tag = node.tag or ""
        if tag in HEADINGS:
            outline.enter(HEADINGS[tag], ANCHOR.sub("", clean(visible_text(node, self._hidden))))
        elif tag == "dt":
            term = ANCHOR.sub("", clean(visible_text(node, self._hidden)))
            prefix = self._mark.removesuffix(": ")
            self._mark = f"{prefix}, {term}: " if prefix and term else f"{term}: " if term else ""
        elif tag == "pre":
            self._mark = ""
            text = visible_text(node, self._hidden).strip("\n")
            yield Block(text, self._path(outline), "code")
        elif tag == "table":
            if not self._only_leads_on([node], SIGN):
                yield Block(self._rows(node), self._path(outline), "table")
        else:
            yield from self._paragraph([node], outline)

    def _path(self, outline: Outline) -> tuple[str, ...]:
        return (*outline.path, *self._terms)

    def _rows(self, table: LexborNode) -> str:
        rows = (row.css("td, th") for row in table.css("tr"))
        lines = (
            " | ".join(clean(visible_text(cell, self._hidden, " ")) for cell in row) for row in rows
        )
        return "\n".join(line for line in lines if line.strip(" |"))

    def _paragraph(self, nodes: list[LexborNode], outline: Outline) -> Iterator[Block]:
        lines = "".join(visible_text(node, self._hidden) for node in nodes).split("\n")
        text = joined([clean(line) for line in lines])
        leads_on = bool(text) and self._only_leads_on(nodes, LETTER)
        if text and not leads_on:
            yield Block(self._mark + text, self._path(outline))
            self._mark = ""
        for image in (each for node in nodes for each in _images(node)):
            if image.mem_id not in self._hidden and (picture := _picture(image)):
                yield Block(picture.caption, self._path(outline), picture=picture)
        nodes.clear()

    def _only_leads_on(self, nodes: Sequence[LexborNode], word: re.Pattern[str]) -> bool:
        """Whether there are links to other places and no other word: a menu, an index.

        Or links of a book's pages to each other alone: "Next: …, Up: …".
        """
        links = [link.mem_id for node in nodes if node.tag != "-text" for link in node.css("a")]
        if links and self._steps.issuperset(links):
            return True
        texts = [_texts(node, self._linked, self._hidden) for node in nodes]
        beside = "".join(own for own, _ in texts)
        return any(linked for _, linked in texts) and not word.search(beside)


def _images(node: LexborNode) -> list[LexborNode]:
    """Those in it, or itself."""
    return [] if node.tag == "-text" else [node] if node.tag == "img" else node.css("img")


def _picture(image: LexborNode) -> Picture | None:
    """Its caption is that of its figure, else its own text; None where it shows nothing."""
    given = image.attributes
    reference = (given.get("src") or "").strip()
    figure = image.parent
    while figure is not None and figure.tag != "figure":
        figure = figure.parent
    below = figure.css_first("figcaption") if figure is not None else None
    captions = (below.text() if below is not None else "", given.get("alt"), given.get("title"))
    caption = next((words for text in captions if (words := clean(text or ""))), "")
    return Picture(caption, reference) if reference else None


def _texts(node: LexborNode, linked: Collection[int], hidden: Collection[int]) -> tuple[str, bool]:
    """The text beside links, and whether there are any."""
    beside: list[str] = []
    has_links, ahead = False, [node]
    while ahead:
        here = ahead.pop()
        if here.mem_id in hidden:
            continue
        if here.mem_id in linked:
            has_links = has_links or bool(here.text().strip())
        elif here.tag == "-text":
            beside.append(here.text())
        else:
            ahead += here.iter(include_text=True)
    return "".join(beside), has_links


def _above(nodes: Sequence[LexborNode]) -> set[int]:
    """The elements that have one of `nodes` in them."""
    ids: set[int] = set()
    for node in nodes:
        above = node.parent
        while above is not None and above.mem_id not in ids:
            ids.add(above.mem_id)
            above = above.parent
    return ids


def text_blocks(text: str) -> list[Block]:
    """Paragraphs: what blank lines separate, with lines joined that an editor has wrapped."""
    paragraphs = re.split(r"\n[ \t\u3000]*\n", text.replace("\r\n", "\n").replace("\r", "\n"))
    joined = (unwrapped(paragraph.split("\n")) for paragraph in paragraphs)
    return [Block(paragraph) for paragraph in joined if paragraph]


def unwrapped(lines: Sequence[str]) -> str:
    """One line a paragraph, list item or short line; wrapped lines become one again."""
    paragraphs: list[list[str]] = []
    previous, width = "", 0
    for line in (" ".join(line.split()) for line in lines):
        if not line:
            continue
        begins = LIST_ITEM.match(line) or SENTENCE_END.search(previous) or width < WRAPPED_FROM
        if begins or not paragraphs:
            paragraphs.append([])
        paragraphs[-1].append(line)
        previous, width = line, sum(2 if HAN.match(character) else 1 for character in line)
    return "\n".join(map(joined, paragraphs))


def joined(lines: Sequence[str]) -> str:
    """Wrapped lines as one: no space between ideographs, a word broken by a hyphen made whole."""
    parts: list[str] = []
    for line in filter(None, (" ".join(line.split()) for line in lines)):
        if parts:
            before = parts[-1]
            if re.search(r"[a-z]-$", before[-2:]) and line[0].islower():
                parts[-1] = before[:-1]
            elif not (WIDE.match(before[-1]) and WIDE.match(line[0])):
                parts.append(" ")
        parts.append(line)
    return "".join(parts)
