"""Labelled questions in JSON lines files, written out or gathered from users' feedback."""

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluator.errors import DataError
from evaluator.model.text import is_chinese, is_sound

_LABELS: dict[object, bool] = {
    **{True: True, False: False, -1: False},  # 1 and 0 are True and False to a dictionary
    **{"relevant": True, "irrelevant": False},
}
_WHOLE, _FEEDBACK = "{question, passages, labels}", "{question, passage, label}"


@dataclass(frozen=True)
class LabelledQuestion:
    """A question, its passages as retrieved, and whether each answers it.

    `strips` are one or two sentences that hold the answer, `other_strips` some that do not.
    """

    question: str
    passages: list[str]
    labels: list[bool]
    strips: list[str] = field(default_factory=list)
    other_strips: list[str] = field(default_factory=list)

    @property
    def language(self) -> str:
        return "zh" if is_chinese(self.question) else "en"

    @property
    def answered(self) -> bool:
        return any(self.labels)


def read_questions(path: Path) -> list[LabelledQuestion]:
    """Labelled questions of a JSON lines file (.gz too), each row of the same one of two forms.

    {question, passages[], labels[], strips[]?, other_strips[]?} holds a whole question;
    {question, passage, label, title?} is one judgement, gathered with its question's others, its
    passage read with the title before it. A label is true or false, 1 or -1 (0 is read as -1),
    "relevant" or "irrelevant". Raises DataError, naming file and line, for anything else, and for
    files where no or every question is answered.
    """
    rows = [
        (f"{path}:{number}", _row(line, f"{path}:{number}"))
        for number, line in enumerate(_lines(path), start=1)
        if line.strip()
    ]
    if not rows:
        raise DataError(f"{path} is empty.")
    form = _form(*rows[0])
    for where, row in rows:
        if _form(where, row) != form:
            raise DataError(f"{where}: a row {_form(where, row)} among rows {form}.")
    if form == _FEEDBACK:
        questions = _gathered(rows)
    else:
        questions = [_question(where, row) for where, row in rows]
    check_classes(questions, f"{rows[0][0]} to {rows[-1][0].rpartition(':')[2]}")
    return questions


def check_classes(questions: Sequence[LabelledQuestion], where: str) -> None:
    """DataError unless some question has an answering passage and some has none."""
    answered = sum(question.answered for question in questions)
    if answered in (0, len(questions)):
        missing = "with" if answered == 0 else "without"
        raise DataError(
            f"{where}: no question {missing} an answering passage among {len(questions)}; "
            "thresholds need both kinds."
        )


def _lines(path: Path) -> list[str]:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    lines: list[str] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number} is no UTF-8: {error.reason}.") from error
    return lines


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where} is no JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"{where} holds no object.")
    return row


def _form(where: str, row: dict[str, Any]) -> str:
    whole, feedback = {"passages", "labels"} <= row.keys(), {"passage", "label"} <= row.keys()
    if "question" not in row or whole == feedback:
        raise DataError(f"{where} is no labelled question: neither {_WHOLE} nor {_FEEDBACK}.")
    return _WHOLE if whole else _FEEDBACK


def _question(where: str, row: dict[str, Any]) -> LabelledQuestion:
    passages, labels = _texts(row, "passages", where), row["labels"]
    if not isinstance(labels, list) or not passages:
        raise DataError(f"{where}: passages and labels must be lists that are not empty.")
    if len(passages) != len(labels):
        raise DataError(f"{where}: {len(passages)} passages, but {len(labels)} labels.")
    return LabelledQuestion(
        _text(row["question"], "question", where),
        passages,
        [_label(label, where) for label in labels],
        _texts(row, "strips", where),
        _texts(row, "other_strips", where),
    )


def _gathered(rows: Sequence[tuple[str, dict[str, Any]]]) -> list[LabelledQuestion]:
    """One question for all judgements of the same words, in the order of the first ones."""
    judged: dict[str, dict[str, tuple[bool, str]]] = {}
    for where, row in rows:
        question = _text(row["question"], "question", where).strip()
        passage = _titled(row, where)
        label = _label(row["label"], where)
        known, first = judged.setdefault(question, {}).setdefault(passage, (label, where))
        if known is not label:
            raise DataError(f"{where} labels the pair of {first} the other way.")
    return [
        LabelledQuestion(question, list(found), [label for label, _ in found.values()])
        for question, found in judged.items()
    ]


def _titled(row: dict[str, Any], where: str) -> str:
    """`title // passage` where there is a title: what the service grades unless told not to."""
    passage = _text(row["passage"], "passage", where).strip()
    title = row.get("title") or ""
    return f"{_text(title, 'title', where).strip()} // {passage}" if title else passage


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {name} must be a text that is not empty.")
    if not is_sound(value):
        raise DataError(f"{where}: {name} holds half of a surrogate pair.")
    return value


def _texts(row: dict[str, Any], name: str, where: str) -> list[str]:
    values = row.get(name) or []
    if not isinstance(values, list):
        raise DataError(f"{where}: {name} must be a list of texts.")
    return [_text(value, f"each of {name}", where) for value in values]


def _label(value: object, where: str) -> bool:
    try:
        return _LABELS[value]
    except (KeyError, TypeError):  # TypeError: a list or an object has no hash
        raise DataError(
            f"{where}: a label must be true or false, 1 or -1, not {json.dumps(value)}."
        ) from None
