"""File formats of training data: JSON lines, JSON arrays and CRAG's tab-separated text, gzipped or
not, each file's format told by the fields of its rows.
"""

import gzip
import json
import zlib
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any

from evaluator.data.text import is_sound
from evaluator.errors import DataError

HELD_OUT = ("bench_*", "manual_held*", "zh_cmrc2018_dev*")
"""Files never trained or calibrated on: benchmarks and the final Chinese measurement."""

SUFFIXES = (".jsonl", ".json", ".tsv", ".txt")
"""What data files end on, each with or without .gz after it."""

_NO_DATA = ("readme*", "license*", "licence*", "notice*")
_PAIR_LABELS = {"1": True, "+1": True, "-1": False, "0": False}
_LABELS = {**_PAIR_LABELS, "relevant": True, "true": True, "irrelevant": False, "false": False}
_TITLE_CHARS = 120

Claim = tuple[str, Hashable, str]
"""A labelled pair: (where, pair, label)."""


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row's fields; `where` is its `file:line`, named by everything that is refused."""

    where: str
    raw: dict[str, Any]

    def text(self, *names: str) -> str:
        """The first of these fields that is there, stripped; DataError unless it holds a text."""
        name = next((name for name in names if name in self.raw), names[0])
        return self.text_of(self.raw.get(name), name)

    def texts(self, name: str) -> list[str]:
        """A list of texts, [] where there is none."""
        values = self.raw.get(name) or []
        if not isinstance(values, list):
            raise DataError(f"{self.where}: {name} must be a list of texts.")
        return [self.text_of(value, f"each of {name}") for value in values]

    def objects(self, name: str) -> list["DataRow"]:
        """A list of objects as rows of their own."""
        values = self.raw[name]
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise DataError(f"{self.where}: {name} must be a list of objects.")
        return [DataRow(self.where, value) for value in values]

    def text_of(self, value: object, name: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"{self.where}: {name} must be a text that is not empty.")
        return self._sound(value, name).strip()

    def title(self) -> str:
        """The title with blanks for underscores, "" where there is none."""
        return self._sound(str(self.raw.get("title") or ""), "title").replace("_", " ")

    def flag(self, name: str) -> bool:
        value = self.raw[name]
        if not isinstance(value, bool):
            raise DataError(f"{self.where}: {name} must be true or false, not {value!r}.")
        return value

    def answers(self, name: str) -> tuple[str, ...]:
        """A list of answers, or a string that spells one in JSON as PopQA's does."""
        value = self.raw.get(name) or []
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                value = None
        if not isinstance(value, list):
            raise DataError(f"{self.where}: {name} must be a list, or a list written as JSON.")
        return tuple(self._sound(str(answer), name).strip() for answer in value)

    def _sound(self, text: str, name: str) -> str:
        if not is_sound(text):
            raise DataError(f"{self.where}: {name} holds half of a surrogate pair.")
        return text

    def label(self, value: object) -> bool:
        """Whether the value says relevant; 0 is read as -1."""
        label = None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str | int):
            label = _LABELS.get(str(value).strip().strip("[]").casefold())
        if label is None:
            raise DataError(
                f"{self.where}: label must be true or false, 1 or -1, relevant or irrelevant, "
                f"not {value!r}."
            )
        return label


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of rows: the fields that tell it, and those it cannot do without.

    A field written `a|b` may have either name. `contradictions` is the share of pairs labelled
    both ways that a file may hold: published sets of generated questions hold a few.
    """

    name: str
    needs: tuple[str, ...]
    contradictions: float = 0.0


CRITIC = Format("critic", ("task", "instruction", "output"))
SNIPPETS = Format("snippets", ("question", "snippets"), 0.01)
LABELLED = Format("ARES-like", ("question", "passage|document", "context_relevant"), 0.01)
ANSWERED = Format("SQuAD-like", ("question", "passage", "answerable"), 0.01)
SUBJECT = Format("PopQA-like", ("question", "answers|possible_answers"), 0.01)
PAIR = Format("pair", ("question", "passage", "label"))
SECTION = Format("manual", ("question", "answer", "title", "page", "language"), 1.0)
DISTRACTOR = Format("passage", ("passage",))
OTHER = Format("other", ())
"""Nothing to train on, such as questions without passages: passed over."""


def format_of(raw: dict[str, Any]) -> Format:
    """The format these fields speak of, whether or not all it needs is there."""
    fields = raw.keys()
    if len(fields & {"task", "instruction", "output"}) > 1:
        return CRITIC
    if "snippets" in fields:
        return SNIPPETS
    if fields & {"context_relevant", "answer_faithful", "answer_relevant"}:
        return LABELLED
    if "answerable" in fields:
        return ANSWERED
    if {"page", "position"} <= fields:
        return SECTION
    if fields & {"prop", "s_wiki_title"}:
        return SUBJECT
    if "label" in fields and fields & {"question", "passage"}:
        return PAIR
    return DISTRACTOR if "passage" in fields and "question" not in fields else OTHER


def recognised(path: Path) -> tuple[Format, Iterator[DataRow]]:
    """The file's format and its rows; DataError at the first row that differs or lacks a field."""
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path} is empty: its list holds no rows.")
    known = format_of(first.raw)
    if known is OTHER and {"question", "passage"} <= first.raw.keys():
        raise DataError(
            f"{first.where}: nothing says whether the passage answers the question (answerable, "
            "context_relevant or label)."
        )
    return known, _checked(first, rows, known)


def _checked(first: DataRow, rows: Iterator[DataRow], known: Format) -> Iterator[DataRow]:
    for row in chain([first], rows):
        own = format_of(row.raw)
        if own in (known, OTHER):  # OTHER: the one field that tells its format may be missing
            for field in known.needs:
                if not any(name in row.raw for name in field.split("|")):
                    fields = field.replace("|", " or ")
                    raise DataError(f"{row.where} lacks {fields}, which {known.name} rows need.")
        if own is not known:
            raise DataError(
                f"{row.where} differs: its fields are of the format {own.name}, those of the rows "
                f"before it {known.name}. Give each format a file of its own."
            )
        yield row


def check_contradictions(claims: Iterable[Claim], max_share: float = 0.0) -> None:
    """Refuse pairs labelled both ways. DataError names both places of the first such pair."""
    first: dict[Hashable, tuple[str, str]] = {}
    both: list[str] = []
    for where, pair, label in claims:
        earlier, before = first.setdefault(pair, (where, label))
        if before != label:
            both.append(
                f"{where} labels as {label} what {earlier} labels as {before}: keep one of them."
            )
    if len(both) > max_share * len(first):
        raise DataError(both[0])


def data_files(folder: Path) -> list[Path]:
    """The folder's data files in the order of their names, without the held-out ones."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder.")
    endings = (*SUFFIXES, *(f"{suffix}.gz" for suffix in SUFFIXES))
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().endswith(endings)
        and not any(fnmatch(path.name.lower(), pattern) for pattern in (*HELD_OUT, *_NO_DATA))
    )


def read_rows(path: Path) -> Iterator[DataRow]:
    """The file's rows, read as its name ends; DataError when it is empty, broken or unreadable."""
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    lines = content.rstrip(b"\r\n").splitlines()
    if not lines:
        raise DataError(f"{path} is empty.")
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".tsv", ".txt")):
        return (_pair(text, where) for where, text in _decoded(lines, path))
    if name.endswith(".json") and lines[0].lstrip(b"\xef\xbb\xbf \t").startswith(b"["):
        rows = _json("\n".join(text for _, text in _decoded(lines, path)), str(path))
        return (_row(raw, f"{path}: row {number}") for number, raw in enumerate(rows, start=1))
    return (_row(_json(text, where), where) for where, text in _decoded(lines, path))


def _decoded(lines: list[bytes], path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number} cannot be read as UTF-8: {error.reason}.") from error
        yield f"{path}:{number}", text


def _json(text: str, where: str) -> Any:
    if not text.strip():
        raise DataError(f"{where} is blank.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON: {error}") from error


def _row(raw: object, where: str) -> DataRow:
    if not isinstance(raw, dict):
        raise DataError(f"{where} holds no object.")
    return DataRow(where, raw)


def _pair(text: str, where: str) -> DataRow:
    """A line of CRAG's released files: question [SEP] passage, a tab, 1 or -1."""
    pair, *labels = text.split("\t")
    if not labels:
        raise DataError(f"{where} lacks its label: `question [SEP] passage`, a tab, 1 or -1.")
    if len(labels) > 1:
        raise DataError(f"{where} has a tab too many: `question [SEP] passage`, a tab, 1 or -1.")
    question, sep, passage = pair.partition("[SEP]")
    if not sep:
        raise DataError(f"{where} lacks the [SEP] between question and passage.")
    label = labels[0].strip()
    if label not in _PAIR_LABELS:
        raise DataError(f"{where}: the label must be 1 or -1, not {label!r}.")
    title, slashes, rest = passage.partition(" // ")
    if not slashes or len(title) > _TITLE_CHARS or not title.strip() or not rest.strip():
        title, rest = "", passage
    fields = {"question": question, "title": title.strip(), "passage": rest}
    return DataRow(where, {**fields, "label": _PAIR_LABELS[label]})
