"""Rows of data files: JSON lines, JSON arrays and CRAG's tab-separated text, gzipped or not."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from evaluator.errors import DataError
from evaluator.model.text import is_sound

HELD_OUT = ("bench_*", "zh_cmrc2018_dev*")
"""Files never trained or calibrated on: benchmarks and the final Chinese measurement."""

SUFFIXES = (".jsonl", ".json", ".tsv", ".txt")
"""What data files end on, each with or without .gz after it."""

_NO_DATA = ("readme*", "license*", "licence*", "notice*")
_PAIR_LABELS = {"1": True, "+1": True, "-1": False, "0": False}
_LABELS = {
    "relevant": True, "true": True, "1": True, "+1": True,
    "irrelevant": False, "false": False, "-1": False, "0": False,
}  # fmt: skip
_TITLE_CHARS = 120
_BLANK = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class Row:
    """One row's fields; `where` is its `file:line`, named by everything that is refused."""

    where: str
    raw: dict[str, Any]

    def text(self, *names: str) -> str:
        """The first of these fields that is there, stripped; DataError unless it holds a text."""
        name = next((name for name in names if name in self.raw), names[0])
        value = self.raw.get(name)
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

    def label(self) -> bool:
        """Whether `label` says relevant; 0 is read as -1."""
        value = self.raw["label"]
        found = None
        if isinstance(value, str | int | float):
            found = _LABELS.get(_plain(value))
        if found is None:
            raise DataError(
                f"{self.where}: label must be true or false, 1 or -1, relevant or irrelevant, "
                f"not {value!r}."
            )
        return found


def _plain(value: str | float) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().strip("[]").casefold()


def data_files(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> list[Path]:
    """The folder's data files in the order of their names, without the held-out ones."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder.")
    endings = (*SUFFIXES, *(f"{suffix}.gz" for suffix in SUFFIXES))
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(endings))
    return [path for path in files if not _is_left_out(path.name, held_out)]


def _is_left_out(name: str, held_out: tuple[str, ...]) -> bool:
    return any(fnmatch(name.lower(), pattern) for pattern in (*held_out, *_NO_DATA))


def read_rows(path: Path) -> Iterator[Row]:
    """The file's rows, read as its name ends; DataError when it is empty, broken or unreadable."""
    lines = _lines(path)
    if not lines:
        raise DataError(f"{path} is empty.")
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".tsv", ".txt")):
        return (_pair(text, where) for where, text in _decoded(lines, path))
    if name.endswith(".json") and lines[0].lstrip(b"\xef\xbb\xbf \t").startswith(b"["):
        return _array("\n".join(text for _, text in _decoded(lines, path)), path)
    return (_object(text, where) for where, text in _decoded(lines, path))


def _lines(path: Path) -> list[bytes]:
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return content.rstrip(b"\r\n").splitlines()


def _decoded(lines: list[bytes], path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number} cannot be read as UTF-8: {error.reason}.") from error
        yield f"{path}:{number}", text


def _object(text: str, where: str) -> Row:
    if not text.strip():
        raise DataError(f"{where} is blank.")
    try:
        return _row(json.loads(text), where)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from error


def _array(text: str, path: Path) -> Iterator[Row]:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno} is no JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}") from error
    # Sound as a whole: what is left is to take its items one by one and to know their lines.
    decoder, line, counted = json.JSONDecoder(), 1, 0
    place = text.index("[") + 1
    while True:
        blank = _BLANK.match(text, place)
        place = blank.end() if blank else place
        if text[place] == "]":
            return
        line, counted = line + text.count("\n", counted, place), place
        raw, place = decoder.raw_decode(text, place)
        yield _row(raw, f"{path}:{line}")


def _row(raw: object, where: str) -> Row:
    if not isinstance(raw, dict):
        raise DataError(f"{where} holds no object.")
    return Row(where, raw)


def _pair(text: str, where: str) -> Row:
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
    return Row(
        where,
        {"question": question, "title": title.strip(), "passage": rest,
         "label": _PAIR_LABELS[label]},
    )  # fmt: skip
