"""Tables and records: one row, one passage, which never mixes with the next.

A row stands under a heading of its own, `#` and its number, for chunks end where headings change.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from app.ingest.chunk import Block
from app.ingest.markup import text_blocks
from app.ingest.refusal import DocumentRefused

T = TypeVar("T")

MOST_ROWS = 200_000
# A cell may be as long as a file: the chunker cuts it. Only the library's own bound is in the way.
csv.field_size_limit(1 << 30)
TEXT_FIELDS = ("text", "content", "passage", "body")
TITLE_FIELDS = ("title", "name")
DELIMITERS = ",;\t|"
QUOTED = re.compile(r'"[^"]*"')
LONGEST_LINE = 65_536
LINE_END = re.compile(r"\r\n?|\n")


def table_blocks(text: str, delimiter: str | None = None) -> list[Block]:
    """`column: value; …` a row. The first row names the columns if it can: full, distinct, no
    numbers. Raises DocumentRefused."""
    by = delimiter or _delimiter(text)
    if by == "\t":
        return _row_blocks(_tab_rows(LINE_END.split(text)))
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=by)
    try:
        return _row_blocks(rows)
    except csv.Error as error:
        raise DocumentRefused(f"row {rows.line_num} cannot be read: {error}") from error


def _tab_rows(lines: Sequence[str]) -> Iterator[list[str]]:
    """Quotes that balance in a row enclose cells; any other is a character like the rest.

    A cell goes on in the next lines where they have no tab before the quote that closes it.
    """
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        if line.count('"') % 2 and (last := _closing(lines, at)):
            line, end = "\n".join(lines[at : last + 1]), last + 1
        if line.count('"') % 2:
            yield line.split("\t")
        else:
            yield next(csv.reader(io.StringIO(line, newline=""), delimiter="\t"), [])
        at = end


def _closing(lines: Sequence[str], at: int) -> int:
    """The line that ends the last cell of line `at`; 0 where none does."""
    cell = lines[at].rpartition("\t")[2]
    if not cell.startswith('"') or cell.count('"') % 2 == 0:
        return 0
    for number in range(at + 1, len(lines)):
        before, quote, after = lines[number].replace('""', "").partition('"')
        if "\t" in before:
            return 0
        if quote:
            closes = after == "" or after.startswith("\t")
            return number if closes and not after.count('"') % 2 else 0
        if "\t" in lines[number]:
            return 0
    return 0


def _delimiter(text: str) -> str:
    """The likeliest one by the first line; csv.Sniffer takes minutes over some files."""
    line = QUOTED.sub("", text[:LONGEST_LINE].lstrip().partition("\n")[0])
    return max(DELIMITERS, key=line.count)


def _row_blocks(rows: Iterator[list[str]]) -> list[Block]:
    first = next(rows, [])
    names = [" ".join(cell.split()) for cell in first]
    if not _are_names(names):
        rows, names = chain([first], rows), []
    blocks = []
    for number, row in enumerate(_bounded(rows), start=2 if names else 1):
        told = [_told(names, at, cell) for at, cell in enumerate(row) if cell.strip()]
        if told:
            blocks.append(Block("; ".join(told), (f"#{number}",)))
    return blocks


def _are_names(names: Sequence[str]) -> bool:
    distinct = len({name.casefold() for name in names}) == len(names)
    return distinct and all(name and not _is_number(name) for name in names)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "").rstrip("%"))
    except ValueError:
        return False
    return True


def _told(names: Sequence[str], at: int, cell: str) -> str:
    value = " ".join(cell.split())
    return f"{names[at]}: {value}" if at < len(names) else value


def record_lines(text: str) -> list[Block]:
    """JSON Lines. Raises DocumentRefused naming the first line that is no JSON."""
    lines = ((at, line) for at, line in enumerate(text.split("\n"), start=1) if line.strip())
    return record_blocks((at, _parsed(line, f"line {at} ")) for at, line in _bounded(lines))


def record_file(text: str) -> list[Block]:
    """One JSON value: a list of records, an object with one such list, or a single record."""
    value = _parsed(text, "")
    if isinstance(value, dict) and len(value) == 1:
        (only,) = value.values()
        value = only if isinstance(only, list) else value
    if not isinstance(value, list):
        return record_blocks([(1, value)])
    return record_blocks(enumerate(_bounded(iter(value)), start=1))


def record_blocks(records: Iterable[tuple[int, object]]) -> list[Block]:
    return [block for number, record in records for block in _record(number, record)]


def _record(number: int, record: object) -> list[Block]:
    """Its text field in paragraphs, or all its fields as `key: value; …`."""
    if not isinstance(record, Mapping):
        return [Block("; ".join(_flat("", record)), (f"#{number}",))]
    fields = {str(key).casefold(): value for key, value in record.items()}
    title = " ".join(_first(fields, TITLE_FIELDS).split())
    headings = (title, f"#{number}") if title else (f"#{number}",)
    if text := _first(fields, TEXT_FIELDS):
        return [Block(block.text, headings) for block in text_blocks(text)]
    return [Block("; ".join(_flat("", record)), headings)]


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def _flat(key: str, value: object) -> Iterator[str]:
    """`a.b: value` for every value that is not empty; a list of plain values is one of them."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}" if key else str(name), inner)
    elif isinstance(value, list):
        plain = [_word(item) for item in value if not isinstance(item, (Mapping, list))]
        if told := ", ".join(filter(None, plain)):
            yield f"{key}: {told}" if key else told
        for item in value:
            if isinstance(item, (Mapping, list)):
                yield from _flat(key, item)
    elif told := _word(value):
        yield f"{key}: {told}" if key else told


def _word(value: object) -> str:
    if value is None:
        return ""
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DocumentRefused(f"{where}is not JSON: {str(error)[:80]}".strip()) from error


def _bounded(rows: Iterator[T]) -> Iterator[T]:
    for count, row in enumerate(rows):
        if count >= MOST_ROWS:
            raise DocumentRefused(f"more than {MOST_ROWS:,} rows; split it")
        yield row
