"""Table and JSON loaders: one row or record, one passage, which never mixes with the next.

A row stands under a heading of its own, `#` and its number, for chunks end where headings change.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from app.ingest.loaders.document import Block, DocumentRefused
from app.ingest.loaders.markup import text_blocks

T = TypeVar("T")

MAX_ROWS = 200_000
# A cell may be as long as a file: the chunker cuts it. Only the library's own bound is in the way.
csv.field_size_limit(1 << 30)
TEXT_FIELDS = ("text", "content", "passage", "body", "正文", "内容", "內容", "文本", "段落")
TITLE_FIELDS = ("title", "name", "标题", "標題", "题目", "題目", "名称", "名稱")
DELIMITERS = ",;\t|"
FIRST_LINE = re.compile(r".{1,65536}")


def table_blocks(text: str, delimiter: str | None = None) -> list[Block]:
    """`column: value; …` a row; a first row of distinct words names the columns.

    Raises DocumentRefused.
    """
    # csv.Sniffer finds no delimiter in a quarter of small tables, and takes minutes over some.
    first = FIRST_LINE.search(text)
    by = delimiter or max(DELIMITERS, key=(first[0] if first else "").count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=by)
    try:
        return _row_blocks(rows)
    except csv.Error as error:
        raise DocumentRefused(f"row {rows.line_num} cannot be read: {error}") from error


def _row_blocks(rows: Iterator[list[str]]) -> list[Block]:
    filled = ((number, row) for number, row in enumerate(rows, start=1) if _width(row))
    # One beyond those that may be, for the first may name the columns.
    table = list(islice(filled, MAX_ROWS + 2))
    names = _names([row for _, row in table])
    blocks = []
    for number, row in _bounded(iter(table[1:] if names else table)):
        cells = [_named(names, at, cell) for at, cell in enumerate(row) if cell.strip()]
        blocks.append(Block("; ".join(cells), (f"#{number}",)))
    return blocks


def _width(row: Sequence[str]) -> int:
    """How many cells there are up to the last that is filled."""
    return next((at for at in range(len(row), 0, -1) if row[at - 1].strip()), 0)


def _names(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first row where it can name the columns that any row fills, else nothing."""
    first = rows[0][: max(map(_width, rows))] if rows else []
    names = [" ".join(cell.split()) for cell in first]
    distinct = len({name.casefold() for name in names}) == len(names)
    can_name = distinct and all(name and not _is_number(name) for name in names)
    return names if can_name else []


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "").rstrip("%"))
    except ValueError:
        return False
    return True


def _named(names: Sequence[str], at: int, cell: str) -> str:
    value = " ".join(cell.split())
    return f"{names[at]}: {value}" if at < len(names) else value


def record_lines(text: str) -> list[Block]:
    """JSON Lines. Raises DocumentRefused naming the first line that is no JSON."""
    lines = ((at, line) for at, line in enumerate(text.split("\n"), start=1) if line.strip())
    return record_blocks((at, _parsed(line, f"line {at} ")) for at, line in _bounded(lines))


def record_file(text: str) -> list[Block]:
    """One JSON value: a list of records, an object with one such list, or a single record.

    What such an object has beside its list is a passage of its own.
    """
    value, beside = _parsed(text, ""), []
    if isinstance(value, dict) and (key := _key_of_records(value)) is not None:
        entries = value.pop(key)
        value, beside = entries, [Block("; ".join(_flat("", value)))]
    if not isinstance(value, list):
        return record_blocks([(1, value)])
    return beside + record_blocks(enumerate(_bounded(iter(value)), start=1))


def _key_of_records(value: Mapping[str, object]) -> str | None:
    """Where its only list of objects is, or all it has; None where it has a text of its own."""
    if _first(_folded(value), TEXT_FIELDS):
        return None
    lists = {key: inner for key, inner in value.items() if isinstance(inner, list)}
    if len(value) > 1:
        lists = {key: inner for key, inner in lists.items() if _are_objects(inner)}
    return next(iter(lists)) if len(lists) == 1 else None


def _are_objects(values: Sequence[object]) -> bool:
    return bool(values) and all(isinstance(value, Mapping) for value in values)


def record_blocks(records: Iterable[tuple[int, object]]) -> list[Block]:
    return [block for number, record in records for block in _record(number, record)]


def _record(number: int, record: object) -> list[Block]:
    """Its text field in paragraphs, or all its fields as `key: value; …`."""
    if not isinstance(record, Mapping):
        return [Block("; ".join(_flat("", record)), (f"#{number}",))]
    fields = _folded(record)
    title = " ".join(_first(fields, TITLE_FIELDS).split())
    headings = (title, f"#{number}") if title else (f"#{number}",)
    if text := _first(fields, TEXT_FIELDS):
        return [Block(block.text, headings) for block in text_blocks(text)]
    return [Block("; ".join(_flat("", record)), headings)]


def _folded(record: Mapping[str, object]) -> dict[str, object]:
    return {str(key).casefold(): value for key, value in record.items()}


def _first(fields: Mapping[str, object], names: Sequence[str]) -> str:
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def _flat(key: str, value: object) -> Iterator[str]:
    """`a.b: value` for every value that is not empty; a list of plain values is one of them."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}" if key else str(name), inner)
    elif isinstance(value, list):
        plain = [_word(item) for item in value if not isinstance(item, (Mapping, list))]
        if words := ", ".join(filter(None, plain)):
            yield f"{key}: {words}" if key else words
        for item in value:
            if isinstance(item, (Mapping, list)):
                yield from _flat(key, item)
    elif word := _word(value):
        yield f"{key}: {word}" if key else word


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
        if count >= MAX_ROWS:
            raise DocumentRefused(f"more than {MAX_ROWS:,} rows; split it")
        yield row
