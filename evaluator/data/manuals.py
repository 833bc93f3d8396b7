"""Questions and answers out of manuals: unpacked Debian packages to JSON lines.

`python -m evaluator.data.manuals PACKAGES OUT` reads PACKAGES/<package>/usr/share/... for each
line of manuals.txt and writes OUT/manual_train.jsonl.gz and OUT/manual_held.jsonl.gz. A row is a
heading or a dictionary entry with the text under it; `page` and `position` tell its neighbours.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from evaluator.data.manual_pages import Block, blocks_of, is_question
from evaluator.data.text import is_chinese

ANSWER_CHARS = {"en": 1500, "zh": 700}
LEAST_CHARS = {"en": 80, "zh": 30}
MAX_ROWS = {"faq": 400, "section": 400, "option": 250}
"""Of one package, language and kind of heading; whole pages, English alone (Chinese is scarce)."""
MAX_QUESTION = 160
MAX_REPEATS = 3
"""A block that stands on more pages than this is part of every page, not of its text."""
OPTION_WORDINGS = {
    "en": ("{page} {entry}", "What does {entry} do in {page}?", "{entry} in {page}"),
    "zh": ("{page} {entry}", "{page} 的 {entry} 有什么作用？", "{page} 中的 {entry}"),
}

_NUMBER = re.compile(
    r"^(?:第 ?\w+ ?[章节節部][.:：]? *|(?:(?:Chapter|Appendix|Part|章|附录|附錄|部分|节|節) ?)?"
    r"(?:\(?[A-Z]?\d[\d.\-]*[.):]*|[A-Z]\.(?:\d+\.)*|[QA问答][:.：])\s+)"
)
_ANSWER_MARK = re.compile(r"^(?:Answer|[A答])[.:：][\s|]*")


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
    for path in sorted(path for path in share.glob(source.pages) if path.is_file()):
        raw = path.read_bytes()
        text = _decoded(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        name = str(path.relative_to(share)).removesuffix(".gz")
        pages[name] = blocks_of(name, text)
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
        if answer and any(letter.isalpha() for letter in asked):
            position += 1
            name = f"{source.package}/{page}/{position}"
            parents = [text for _, text in (path if kind == "option" else path[:-1])]
            title = " › ".join(dict.fromkeys([source.title, *parents]))
            about = (source.package, source.language, "faq" if is_question(asked) else kind)
            yield Row(name, asked, answer, title, page, position, *about)
        asked = ""

    for block in blocks:
        if block.kind == "heading":
            yield from finished()
            asked, kind = _NUMBER.sub("", block.text), "section"
            path = [(level, text) for level, text in path if level < block.level]
            path.append((block.level, asked))
        elif block.kind == "entry" and not (path and is_question(path[-1][1])):
            if kind == "option" and asked and not gathered:
                asked = f"{asked}, {block.text}"
                continue
            yield from finished()
            asked = _NUMBER.sub("", block.text) if is_question(block.text) else block.text
            kind = "option"
        elif block.kind == "end" and kind == "option":
            yield from finished()
        elif block.text:
            gathered.append(block)
    yield from finished()


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
    answer = _ANSWER_MARK.sub("", "\n".join(paragraphs))
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
        elif row.kind == "option":
            asked = " ".join([*(titles[1:] or titles)[-2:], asked])
        elif times[asked.casefold()] > 1 or _is_short(asked, language):
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
