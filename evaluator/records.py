"""Reads the records of a data folder, recognised by their fields, not by their files' names."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Any

from evaluator.errors import DataError
from evaluator.text import is_chinese, sentences

HELD_OUT = ("bench_*", "zh_cmrc2018_dev*")
"""Files never trained or calibrated on: benchmarks and the final Chinese measurement."""

CHUNK_CHARS = {"en": 900, "zh": 350}
"""Long documents are cut into chunks of whole sentences of about this length."""


@dataclass(frozen=True, slots=True)
class Record:
    """One question with one passage and whether that passage answers it.

    `question` is empty for a passage that is only a distractor; `whole` marks passages that
    are relevant as a whole (a page about the question's subject), not by an answer string.
    """

    source: str
    language: str
    question: str
    answers: tuple[str, ...]
    relevant: bool
    title: str
    passage: str

    @property
    def group(self) -> str:
        """What a split may not divide: the article, or the passage where it has no title."""
        return self.title or self.passage


def read_folder(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> list[Record]:
    """All usable records of the folder's *.jsonl and *.jsonl.gz files, held-out ones left out.

    Raises DataError, naming file and line, for broken or empty files and wrong labels; a file
    of another kind (questions without passages) is passed over.
    """
    records: list[Record] = []
    for path in data_files(folder, held_out):
        records += read_file(path)
    if not any(record.question for record in records):
        raise DataError(f"No labelled questions in {folder} (looked for *.jsonl and *.jsonl.gz).")
    return records


def read_file(path: Path) -> list[Record]:
    """One file's records; DataError when it is empty, broken or mislabelled."""
    read = list(_parsed_lines(path))
    if not read:
        raise DataError(f"{path} is empty.")
    return [record for found in read for record in found]


def data_files(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> list[Path]:
    """The folder's data files in the order of their names, without the held-out ones."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder.")
    files = sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])
    return [path for path in files if not any(fnmatch(path.name, name) for name in held_out)]


def digests(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> dict[str, str]:
    """SHA-256 of each data file, by name."""
    files = data_files(folder, held_out)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}


def _parsed_lines(path: Path) -> Iterator[list[Record]]:
    source = path.name.split(".")[0]
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield _parsed(line, source, f"{path}:{number}")
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _parsed(line: str, source: str, where: str) -> list[Record]:
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where} is no JSON: {error}") from error
    if not isinstance(raw, dict):
        raise DataError(f"{where} holds no object.")
    if "snippets" in raw:
        return _from_snippets(raw, source, where)
    if "context_relevant" in raw:
        return _from_labels(raw, source, where)
    if "answerable" in raw and "passage" in raw:
        return _from_answers(raw, source, where)
    if "passage" in raw and "question" not in raw:
        return _distractors(raw, source, where)
    return []


def _from_answers(raw: dict[str, Any], source: str, where: str) -> list[Record]:
    question, passage = _text(raw, "question", where), _text(raw, "passage", where)
    answers = tuple(str(answer).strip() for answer in raw.get("answers") or [])
    answerable = _flag(raw, "answerable", where)
    if answerable and not any(answers):
        raise DataError(f"{where}: answerable, but without an answer.")
    language = _language(passage)
    title = str(raw.get("title") or "").replace("_", " ")
    chunks = chunked(passage, language)
    if len(chunks) <= 2 or not answerable:
        return [Record(source, language, question, answers, answerable, title, passage)]
    holding = [chunk for chunk in chunks if any(answer in chunk for answer in answers)]
    return [Record(source, language, question, answers, True, title, c) for c in holding[:1]] + [
        Record(source, language, "", (), False, title, chunk) for chunk in chunks
    ]


def _from_labels(raw: dict[str, Any], source: str, where: str) -> list[Record]:
    passage = _text(raw, "passage", where)
    relevant = _flag(raw, "context_relevant", where)
    question = _text(raw, "question", where)
    return [Record(source, _language(passage), question, (), relevant, "", passage)]


def _from_snippets(raw: dict[str, Any], source: str, where: str) -> list[Record]:
    question = _text(raw, "question", where)
    snippets = raw["snippets"]
    if not isinstance(snippets, list):
        raise DataError(f"{where}: snippets must be a list.")
    texts = [_text(snippet, "text", where) for snippet in snippets[:3]]
    return [Record(source, _language(t), question, (), True, "", t) for t in texts]


def _distractors(raw: dict[str, Any], source: str, where: str) -> list[Record]:
    passage = _text(raw, "passage", where)
    language, title = _language(passage), str(raw.get("title") or "")
    chunks = chunked(passage, language)[:1]  # its opening says what it is about
    return [Record(source, language, "", (), False, title, chunk) for chunk in chunks]


def chunked(passage: str, language: str, chars: int = 0) -> list[str]:
    """Whole sentences gathered to chunks of about `chars`, CHUNK_CHARS by default."""
    chunks, current, most = [], "", chars or CHUNK_CHARS[language]
    joint = "" if language == "zh" else " "
    for sentence in sentences(passage):
        if current and len(current) + len(sentence) > most:
            chunks.append(current)
            current = ""
        current = f"{current}{joint}{sentence}".strip()
    return [*chunks, current] if current else chunks


def _language(text: str) -> str:
    return "zh" if is_chinese(text) else "en"


def _text(raw: Any, field: str, where: str) -> str:
    value = raw.get(field) if isinstance(raw, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {field} must be a text that is not empty.")
    return value.strip()


def _flag(raw: dict[str, Any], field: str, where: str) -> bool:
    value = raw[field]
    if not isinstance(value, bool):
        raise DataError(f"{where}: {field} must be true or false, not {value!r}.")
    return value
