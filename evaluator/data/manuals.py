"""Questions and answers out of manuals: unpacked Debian packages to JSON lines.

`python -m evaluator.data.manuals PACKAGES OUT` reads PACKAGES/<package>/usr/share/... for each
line of manuals.txt and writes OUT/manual_train.jsonl.gz and OUT/manual_held.jsonl.gz. A row is a
heading or a dictionary entry with the text under it; `page` and `position` tell its neighbours.
For some entries there is a question in a user's own words, too (user_questions.jsonl), since
headings share more words with the text than questions do.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from evaluator.data.manual_pages import PageBlock, blocks_of, is_question
from evaluator.data.text import is_chinese

ANSWER_CHARS = {"en": 1500, "zh": 700}
MIN_CHARS = {"en": 80, "zh": 30}
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
class Manual:
    """A line of manuals.txt: pages of a package that are one manual in one language."""

    package: str
    language: str
    side: str
    licence: str
    pages: str
    title: str


@dataclass(frozen=True, slots=True)
class ManualRow:
    """A question with its answer, `position` in the order of the page.

    `user_question` asks for it in a user's own words, `facts` are the parts that answer that.
    """

    id: str
    question: str
    answer: str
    title: str
    page: str
    position: int
    package: str
    language: str
    kind: str
    user_question: str = ""
    facts: tuple[str, ...] = ()


@dataclass(slots=True)
class _Section:
    """A heading or an entry, the headings on its path, and the blocks below it."""

    question: str
    kind: str
    path: list[tuple[int, str]]
    blocks: list[PageBlock] = field(default_factory=list)


def manuals() -> list[Manual]:
    """The manuals to read, from manuals.txt."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    return [Manual(*line.split(maxsplit=5)) for line in lines if line and line[0] != "#"]


def rows(manual: Manual, packages: Path) -> list[ManualRow]:
    """The rows of a manual; an answer or a question that comes twice counts once."""
    pages = {}
    share = packages / manual.package / "usr/share"
    for path in sorted(path for path in share.glob(manual.pages) if path.is_file()):
        raw = path.read_bytes()
        text = _decoded(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        name = str(path.relative_to(share)).removesuffix(".gz")
        pages[name] = blocks_of(name, text)
    repeats = Counter(block for page in pages.values() for block in {*page})
    result: list[ManualRow] = []
    for name, page in pages.items():
        own = [b for b in page if not b.linked and (b.kind != "text" or repeats[b] <= MAX_REPEATS)]
        result += _page_rows(manual, name, own)
    return _capped(_distinct(result, manual.language), manual)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _page_rows(manual: Manual, page: str, blocks: list[PageBlock]) -> Iterator[ManualRow]:
    """One row for each heading and each entry that has a text of its own."""
    position = 0
    for section in _sections(blocks):
        question, answer = section.question, _answer(section.blocks, manual.language)
        if answer and any(letter.isalpha() for letter in question):
            position += 1
            name = f"{manual.package}/{page}/{position}"
            title = " › ".join(dict.fromkeys([manual.title, *(text for _, text in section.path)]))
            kind = "faq" if is_question(question) else section.kind
            about = (manual.package, manual.language, kind)
            yield ManualRow(name, question, answer, title, page, position, *about)


def _sections(blocks: list[PageBlock]) -> Iterator[_Section]:
    """The page cut at headings and entries; an entry without a text joins the next one."""
    path: list[tuple[int, str]] = []
    section = _Section("", "", [])
    for block in blocks:
        if block.kind == "heading":
            yield section
            path = [(level, text) for level, text in path if level < block.level]
            heading = _NUMBER.sub("", block.text)
            section = _Section(heading, "section", path)
            path = [*path, (block.level, heading)]
        elif block.kind == "entry" and not (path and is_question(path[-1][1])):
            if section.kind == "option" and section.question and not section.blocks:
                section.question = f"{section.question}, {block.text}"
                continue
            yield section
            entry = _NUMBER.sub("", block.text) if is_question(block.text) else block.text
            section = _Section(entry, "option", path)
        elif block.kind == "end" and section.kind == "option":
            yield section
            section = _Section("", "option", [])
        elif block.text:
            section.blocks.append(block)
    yield section


def _answer(blocks: list[PageBlock], language: str) -> str:
    """Whole blocks up to the longest answer; "" where too little or another language is left."""
    prose = [block.text for block in blocks if block.kind != "code"]
    if not prose or not _is_written_in(language, prose):
        return ""
    paragraphs = _fitting(blocks, ANSWER_CHARS[language]).split("\n")
    while paragraphs and (not paragraphs[-1].strip() or paragraphs[-1].rstrip()[-1] in ":："):
        paragraphs.pop()
    answer = _ANSWER_MARK.sub("", "\n".join(paragraphs))
    return answer if len(answer) >= MIN_CHARS[language] else ""


def _is_written_in(language: str, prose: list[str]) -> bool:
    chinese = language == "zh"
    matches = all(is_chinese(text) == chinese for text in prose if len(text) > 40)
    return matches and (not chinese or is_chinese(" ".join(prose)))


def _fitting(blocks: list[PageBlock], max_chars: int) -> str:
    """The first blocks that fit, as one text."""
    text = before = ""
    for block in blocks:
        joint = "\n" if block.kind == "item" or before == "entry" else "\n\n"
        before = block.kind
        longer = f"{text}{joint}{block.text}" if text else block.text
        if len(longer) > max_chars:
            break
        text = longer
    return text


def _distinct(rows: list[ManualRow], language: str) -> list[ManualRow]:
    """Rows whose question tells them from all others of the manual; of equal answers the first."""
    rows = list({row.answer: row for row in reversed(rows)}.values())[::-1]
    times = Counter(row.question.casefold() for row in rows)
    translated = [row for row in rows if _is_translated(row.question, language)]
    named = [replace(row, question=_in_context(row, language, times)) for row in translated]
    times = Counter(row.question.casefold() for row in named if len(row.question) <= MAX_QUESTION)
    return [row for row in named if times[row.question.casefold()] == 1]


def _is_translated(heading: str, language: str) -> bool:
    """A heading of many words that is not in the manual's language was not translated."""
    return language != "zh" or len(heading.split()) <= 4 or is_chinese(heading)


def _in_context(row: ManualRow, language: str, times: Mapping[str, int]) -> str:
    """The question as it reads away from its page.

    A heading that is short or stands in several places takes the heading above it, an option its
    page.
    """
    question, titles = row.question, row.title.split(" › ")
    if question[0] == "-":
        wordings = OPTION_WORDINGS[language]
        choice = sha256(row.id.encode()).digest()[0] % len(wordings)
        return wordings[choice].format(page=titles[:2][-1], entry=question)
    if row.kind == "option":
        return " ".join([*(titles[1:] or titles)[-2:], question])
    if times[question.casefold()] > 1 or _is_short(question, language):
        above = titles[-2:] if _is_short(titles[-1], language) else titles[-1:]
        return " ".join([*above, question])
    return question


def _is_short(heading: str, language: str) -> bool:
    return len(heading) < 5 if language == "zh" else len(heading.split()) < 3


def _capped(rows: list[ManualRow], manual: Manual) -> list[ManualRow]:
    if manual.language == "zh":
        return rows
    whole_pages = sorted(rows, key=lambda r: (sha256(r.page.encode()).digest(), r.position))
    of_kind = {kind: [row for row in whole_pages if row.kind == kind] for kind in MAX_ROWS}
    chosen = {row.id for kind, most in MAX_ROWS.items() for row in of_kind[kind][:most]}
    return [row for row in rows if row.id in chosen]


@dataclass(frozen=True)
class UserQuestion:
    """A line of user_questions.jsonl: where in its entry lies what the user needs.

    `entry` begins the entry's SHA-256, `facts` are [start, end) in it.
    """

    id: str
    question: str
    facts: list[list[int]]
    entry: str


def with_user_questions(
    rows: Sequence[ManualRow], written: Mapping[str, UserQuestion]
) -> Iterator[ManualRow]:
    """The rows with the questions that were written for them, unless an entry has changed."""
    for row in rows:
        known = written.get(row.id)
        if known is None or not sha256(row.answer.encode()).hexdigest().startswith(known.entry):
            yield row
        else:
            facts = tuple(row.answer[start:end] for start, end in known.facts)
            yield replace(row, user_question=known.question, facts=facts)


def main() -> None:
    """Write both sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    lines = Path(__file__).with_name("user_questions.jsonl").read_text("utf-8").splitlines()
    written = {each.id: each for each in (UserQuestion(**json.loads(line)) for line in lines)}
    for side in ("train", "held"):
        with gzip.open(given.out / f"manual_{side}.jsonl.gz", "wt", encoding="utf-8") as out:
            for manual in manuals():
                if manual.side == side:
                    for row in with_user_questions(rows(manual, given.packages), written):
                        out.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
