"""Questions and answers out of manuals: unpacked Debian packages to JSON lines.

`python -m evaluator.data.manuals PACKAGES OUT` reads PACKAGES/<package>/usr/share/... for each
line of manuals.txt and writes OUT/manual_train.jsonl.gz and OUT/manual_held.jsonl.gz. A row is a
heading or a dictionary entry with the text under it; `page` and `position` tell its neighbours.
"""

import argparse
import gzip
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from html import escape
from pathlib import Path
from textwrap import dedent

from selectolax.lexbor import LexborHTMLParser, LexborNode

from evaluator.data.text import is_chinese

ANSWER_CHARS = {"en": 1500, "zh": 700}
LEAST_CHARS = {"en": 80, "zh": 30}
MAX_ROWS = {"faq": 400, "section": 400, "option": 250}
"""Of one package, language and kind of heading; whole pages, English alone (Chinese is scarce)."""
MAX_LINKED = 0.7
"""A block with more of its characters in links is navigation."""
MAX_QUESTION = 160
MAX_TAG = 120
"""Characters of an entry that DocBook wrote as a paragraph."""
MAX_REPEATS = 3
"""A block that stands on more pages than this is part of every page, not of its text."""
OPTION_WORDINGS = {
    "en": ("{page} {entry}", "What does {entry} do in {page}?", "{entry} in {page}"),
    "zh": ("{page} {entry}", "{page} 的 {entry} 有什么作用？", "{page} 中的 {entry}"),
}

_SPACE = re.compile(r"\s+")
_CHINESE_JOINT = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) (?=[\u3000-\u9fff\uff00-\uffef])")
_NUMBER = re.compile(
    r"^(?:第 ?\w+ ?[章节節部][.:：]? *|(?:(?:Chapter|Appendix|Part|章|附录|附錄|部分|节|節) ?)?"
    r"(?:\(?[A-Z]?\d[\d.\-]*[.):]*|[A-Z]\.(?:\d+\.)*|[QA问答][:.：])\s+)"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A line of manuals.txt: pages of a package that are one manual in one language."""

    package: str
    language: str
    side: str
    licence: str
    pages: str
    title: str


@dataclass(frozen=True, slots=True)
class Block:
    """A heading (level 1 to 6), an entry and its end, a listing, or a text (all level 0)."""

    kind: str
    text: str
    level: int = 0
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A question with its answer, `position` in the order of the page."""

    id: str
    question: str
    answer: str
    title: str
    page: str
    position: int
    package: str
    language: str
    kind: str


def sources() -> list[Source]:
    """What is read, from manuals.txt."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    return [Source(*line.split(maxsplit=5)) for line in lines if line and line[0] != "#"]


def rows(source: Source, packages: Path) -> list[Row]:
    """The rows of a manual; an answer or a question that comes twice counts once."""
    pages = {}
    share = packages / source.package / "usr/share"
    common = source.pages.partition("*")[0].rpartition("/")[0]
    for path in sorted(path for path in share.glob(source.pages) if path.is_file()):
        raw = path.read_bytes()
        text = _decoded(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        name = str(path.relative_to(share / common)).removesuffix(".gz")
        pages[name] = _blocks(_as_html(path, text))
    repeats = Counter(block for page in pages.values() for block in {*page})
    found: list[Row] = []
    for name, page in pages.items():
        kept = [b for b in page if not b.linked and (b.kind != "text" or repeats[b] <= MAX_REPEATS)]
        found += _page_rows(source, name, kept)
    return _capped(_distinct(found, source.language), source)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _as_html(path: Path, text: str) -> str:
    if path.suffix == ".page":
        return mallard_as_html(text)
    return text if ".htm" in path.name else man_as_html(text)


# HTML to blocks

_SKIPPED = {
    *("aside", "button", "footer", "form", "head", "header", "img", "nav", "script", "select"),
    *("style", "sup", "svg"),
}
_SKIPPED_CLASSES = {
    *("anchor", "bottomlang", "contents", "docnav", "footer", "footnotes", "header", "headerlink"),
    *("indexterm", "linenos", "menu", "nav-panel", "navfooter", "navheader", "nosearch", "related"),
    *("sphinxsidebar", "toc", "top", "toplang", "viewcode-link"),
}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BREAKS = {
    *("article", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "figure"),
    *("hr", "li", "main", "ol", "p", "section", "summary", "table", "td", "th", "tr", "ul"),
}
_NOT_IN_A_ROW = ", ".join(("pre", "dl", "table", "ul", "ol", *sorted(_HEADINGS)))


def _blocks(html: str) -> list[Block]:
    """The page's blocks in reading order, below the heading that its `up` link names."""
    page = LexborHTMLParser(html)
    blocks: list[Block] = []
    line: list[tuple[str, bool]] = []
    mark = ""

    def flush(kind: str = "text", level: int = 0) -> None:
        nonlocal mark
        text = _plain("".join(part for part, _ in line)).strip("¶# |")
        linked = sum(len(part.strip()) for part, in_link in line if in_link)
        if text:
            is_linked = kind != "heading" and linked > MAX_LINKED * len(text)
            kind = "item" if mark and kind == "text" else kind
            blocks.append(Block(kind, mark + text, level, is_linked))
            mark = ""
        line.clear()

    def visit(node: LexborNode, linked: bool, nested: bool) -> None:
        nonlocal mark
        count = 0
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == "-text":
                line.append((child.text_content or "", linked))
                continue
            attributes = child.attributes
            classes = {*(attributes.get("class") or "").casefold().split()}
            if tag in _SKIPPED or classes & _SKIPPED_CLASSES or "hidden" in attributes:
                continue
            if tag in _BREAKS or tag in _HEADINGS or tag in {"pre", "dt"}:
                flush()
            if tag == "pre":
                listing = dedent(child.text().strip("\n").rstrip())
                blocks.append(Block("code", listing))
            elif tag in _HEADINGS:
                visit(child, linked, nested)
                flush("heading", int(tag[1]))
            elif tag == "dt":
                visit(child, linked, nested)
                flush("item" if nested else "entry")
            elif tag == "tr" and child.css_first(_NOT_IN_A_ROW) is None:
                cells = [_plain(cell.text()) for cell in child.iter()]
                if "question" in classes:
                    blocks.append(Block("heading", cells[-1], 6))
                elif any(cells) and len(child.css("a[href]")) < len(cells):
                    blocks.append(Block("item", " | ".join(filter(None, cells))))
            elif tag == "p" and _is_bold_question(child):
                blocks.append(Block("heading", _plain(child.text()), 6))
            elif tag in _BREAKS:
                if tag == "li":
                    count += 1
                    mark = f"{count}. " if node.tag == "ol" else "- "
                visit(child, linked, nested or tag == "dd")
                flush()
                mark = ""
                if tag == "dl" and not nested:
                    blocks.append(Block("end", ""))
            else:
                visit(child, linked or (tag == "a" and "href" in attributes), nested)
                if tag == "br":
                    line.append((" ", False))

    up = page.css_first("link[rel=up]")
    if up is not None and up.attributes.get("title"):
        blocks.append(Block("heading", _plain(up.attributes["title"] or "")))
    if page.body is not None:
        visit(page.body, False, False)
    flush()
    return blocks


def _is_bold_question(paragraph: LexborNode) -> bool:
    bold, text = paragraph.css_first("b, strong"), paragraph.text().strip()
    return bold is not None and _is_question(text) and bold.text().strip() == text


def _plain(text: str) -> str:
    """One line, without blanks between Chinese characters."""
    return _CHINESE_JOINT.sub("", _SPACE.sub(" ", text).strip())


# Other forms to HTML

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
    def glyph(found: re.Match[str]) -> str:
        name = found["pair"] or found["name"] or found["one"]
        if name is not None:
            return _ROFF_GLYPHS.get(name, "")
        return _ROFF_PLAIN.get(found["plain"] or "", found["plain"] or "")

    return escape(_ROFF_ESCAPE.sub(glyph, roff), quote=False)


_ROFF_WORD = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')


_ROFF_HEADINGS = {"TH": "h1", "SH": "h2", "SS": "h3"}
_FONTS = {"B", "I", "BR", "RB", "BI", "IB", "IR", "RI", "SM", "SB"}
_BULLETS = {"\\(bu", "\\[bu]", "*", "o", "-"}


def man_as_html(text: str) -> str:
    """A page of the man macros, also as Pod and DocBook write them; "" for mdoc and links."""
    html: list[str] = []
    awaited = skipped = ""
    listing = in_list = False

    def close_list() -> None:
        nonlocal in_list
        html.extend(["</dl>"] if in_list else [])
        in_list = False

    def entry(tag: str) -> None:
        nonlocal in_list
        html.extend([] if in_list else ["<dl>"])
        in_list = True
        html.append(f"<dt>{tag}</dt><dd>")

    for raw in text.splitlines():
        macro, _, rest = raw[1:].partition(" ") if raw[:1] in {".", "'"} else ("", "", raw)
        words = [quoted.replace('""', '"') or bare for quoted, bare in _ROFF_WORD.findall(rest)]
        if skipped:
            skipped = "" if raw.strip().endswith(skipped) else skipped
        elif macro in {"Dd", "so"}:
            return ""
        elif macro in {"de", "ig", "if", "ie", "el"}:
            skipped = ".." if macro in {"de", "ig"} else "\\}" if "\\{" in rest else ""
        elif macro in {"SH", "SS"} and not words:
            awaited = macro
        elif macro in {"TH", "SH", "SS"} or (awaited in {"SH", "SS"} and words):
            close_list()
            tag = _ROFF_HEADINGS.get(macro) or _ROFF_HEADINGS[awaited]
            title = words[0].lower() if macro == "TH" else " ".join(words)
            html.append(f"<{tag}>{_roff_text(title)}</{tag}>")
            awaited = ""
        elif macro in {"TP", "TQ"}:
            awaited = macro
        elif macro == "IP" and words and words[0] not in _BULLETS:
            entry(_roff_text(words[0]))
        elif macro in {"nf", "EX", "Vb", "fi", "EE", "Ve"}:
            opens = macro in {"nf", "EX", "Vb"}
            html.extend([] if opens == listing else ["<pre>" if opens else "</pre>"])
            listing = opens
        elif macro in {"PP", "P", "LP", "HP", "IP", "sp", "br"}:
            html.append("" if listing else "<p>- " if macro == "IP" and words else "<p>")
        elif macro == "RS":  # DocBook's entry: a short paragraph before an indented one
            start = max((n for n, part in enumerate(html) if part.startswith("<p>")), default=-1)
            tag = " ".join(html[start + 1 :]).strip() if start >= 0 else ""
            if tag and len(tag) < MAX_TAG and "<" not in tag and tag[-1] not in ":：.。":
                del html[start:]
                entry(tag)
        elif not macro or macro in _FONTS:
            joint = "" if len(macro) == 2 and macro not in {"SM", "SB"} else " "
            line = _roff_text(joint.join(words) if macro else raw)
            if awaited and line.strip():
                entry(line)
                awaited = ""
            else:
                html.append(line if line.strip() or listing else "<p>")
    close_list()
    return f"<body>{chr(10).join(html)}</body>"


# Blocks to rows


def _page_rows(source: Source, page: str, blocks: list[Block]) -> Iterator[Row]:
    """One row for each heading and each entry that has a text of its own."""
    path: list[tuple[int, str]] = []
    gathered: list[Block] = []
    asked = kind = ""
    position = 0

    def finished() -> Iterator[Row]:
        nonlocal asked, position
        answer = _answer(gathered, source.language)
        gathered.clear()
        if asked and answer:
            position += 1
            name = f"{source.package}/{source.language}/{page}/{position}"
            parents = [text for _, text in (path if kind == "option" else path[:-1])]
            title = " › ".join(dict.fromkeys([source.title, *parents]))
            about = (source.package, source.language, "faq" if _is_question(asked) else kind)
            yield Row(name, asked, answer, title, page, position, *about)
        asked = ""

    for block in blocks:
        if block.kind == "heading":
            yield from finished()
            asked, kind = _NUMBER.sub("", block.text), "section"
            path = [(level, text) for level, text in path if level < block.level]
            path.append((block.level, asked))
        elif block.kind == "entry" and not (path and _is_question(path[-1][1])):
            if kind == "option" and asked and not gathered:
                asked = f"{asked}, {block.text}"
                continue
            yield from finished()
            asked, kind = block.text, "option"
        elif block.kind == "end" and kind == "option":
            yield from finished()
        elif block.text:
            gathered.append(block)
    yield from finished()


def _is_question(text: str) -> bool:
    """Whether it ends with a question mark that is not part of a syntax."""
    return text[-1:] in {"?", "？"} and " ?" not in text


def _answer(blocks: list[Block], language: str) -> str:
    """Whole blocks up to the longest answer; "" where too little or another language is left."""
    prose = [block.text for block in blocks if block.kind != "code"]
    foreign = language == "zh"
    if any(is_chinese(text) != foreign for text in prose if len(text) > 40) or not prose:
        return ""
    if foreign and not is_chinese(" ".join(prose)):
        return ""
    answer = before = ""
    for block in blocks:
        joint = "\n" if block.kind == "item" or before == "entry" else "\n\n"
        before = block.kind
        longer = f"{answer}{joint}{block.text}" if answer else block.text
        if len(longer) > ANSWER_CHARS[language]:
            break
        answer = longer
    paragraphs = answer.split("\n")
    while paragraphs and (not paragraphs[-1].strip() or paragraphs[-1].rstrip()[-1] in ":："):
        paragraphs.pop()
    answer = "\n".join(paragraphs)
    return answer if len(answer) >= LEAST_CHARS[language] else ""


def _distinct(found: list[Row], language: str) -> list[Row]:
    """Rows whose question tells them from all others of the manual; of equal answers the first.

    A heading that is short or stands in several places takes the heading above it, an option its
    page. A heading of many words that is not in the manual's language was not translated.
    """
    found = list({row.answer: row for row in reversed(found)}.values())[::-1]
    times = Counter(row.question.casefold() for row in found)
    named = []
    for row in found:
        asked, titles = row.question, row.title.split(" › ")
        if language == "zh" and len(asked.split()) > 4 and not is_chinese(asked):
            continue
        if asked[0] == "-":
            wordings = OPTION_WORDINGS[language]
            choice = sha256(row.id.encode()).digest()[0] % len(wordings)
            asked = wordings[choice].format(page=titles[:2][-1], entry=asked)
        elif times[asked.casefold()] > 1 or row.kind == "option" or _is_short(asked, language):
            above = titles[-2:] if _is_short(titles[-1], language) else titles[-1:]
            asked = " ".join([*above, asked])
        if len(asked) <= MAX_QUESTION:
            named.append(replace(row, question=asked))
    times = Counter(row.question.casefold() for row in named)
    return [row for row in named if times[row.question.casefold()] == 1]


def _is_short(heading: str, language: str) -> bool:
    return len(heading) < 5 if language == "zh" else len(heading.split()) < 3


def _capped(found: list[Row], source: Source) -> list[Row]:
    if source.language == "zh":
        return found
    pages = sorted({row.page for row in found}, key=lambda page: sha256(page.encode()).digest())
    order = {page: place for place, page in enumerate(pages)}
    kept: Counter[str] = Counter()
    chosen: set[str] = set()
    for row in sorted(found, key=lambda row: (order[row.page], row.position)):
        if kept[row.kind] < MAX_ROWS[row.kind]:
            kept[row.kind] += 1
            chosen.add(row.id)
    return [row for row in found if row.id in chosen]


def main() -> None:
    """Write both sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    for side in ("train", "held"):
        with gzip.open(given.out / f"manual_{side}.jsonl.gz", "wt", encoding="utf-8") as out:
            for source in sources():
                if source.side == side:
                    for row in rows(source, given.packages):
                        out.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
