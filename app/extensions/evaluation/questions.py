"""Question sets: JSON lines or CSV, with whatever gold is known of each question."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as validator

from app.errors import InvalidRequest, wrong_fields
from app.schemas.ask import UserText

MAX_QUESTIONS = 10_000
POINTER = "#/questions"
SEPARATOR = "|"
"""Between several values of one CSV cell."""
_PLURALS = {"answer": "answers", "source": "sources"}
_LISTS = (*_PLURALS, *_PLURALS.values())

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Gold = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]


class EvaluationQuestion(BaseModel):
    """A question and its gold; other fields of a row are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Name = Field("", description="Left out: a digest of the question.")
    question: UserText
    answers: list[Gold] = Field([], max_length=100, description="Each of them is a right answer.")
    sources: list[Gold] = Field(
        [], max_length=100, description="Documents that hold it: a path, its end, or a pattern."
    )
    answerable: bool | None = Field(
        None, description="Whether the documents hold it; left out: they do where gold is given."
    )
    generated: bool = Field(False, description="Written by `evaluate --make`, not by a person.")

    @validator(mode="before")
    @classmethod
    def _completed(cls, row: object) -> object:
        """One `answer` or `source` is a list of one; who names no id is known by the question."""
        if not isinstance(row, Mapping):
            return row
        given = {key: value for key, value in row.items() if value is not None}
        for one, several in _PLURALS.items():
            if value := given.get(several, given.get(one)):
                given[several] = [value] if isinstance(value, str) else value
        digest = sha256(str(given.get("question")).encode()).hexdigest()
        return {**given, "id": str(given.get("id") or digest[:12])}

    @validator(mode="after")
    def _gold_is_answerable(self) -> Self:
        if self.answerable is False and self.sources:
            raise ValueError("has sources, but is not answerable")
        return self

    @property
    def is_answerable(self) -> bool | None:
        """None where nothing is said of it."""
        if self.answerable is None and (self.answers or self.sources):
            return True
        return self.answerable

    @property
    def line(self) -> str:
        """It as a line of a file of JSON lines."""
        return f"{self.model_dump_json(exclude_defaults=True)}\n"


def read_questions(text: str, name: str = "questions") -> list[EvaluationQuestion]:
    """From JSON lines, a JSON list, or CSV with a header; `name` is for messages.

    Raises InvalidRequest, which names the first line at fault.
    """
    rows = list(_rows(text.removeprefix("\ufeff").strip(), name))
    if not rows:
        raise InvalidRequest(POINTER, f"{name} holds no question")
    if len(rows) > MAX_QUESTIONS:
        raise InvalidRequest(
            POINTER, f"{name} holds {len(rows)} questions, at most {MAX_QUESTIONS} can be"
        )
    questions = [_question(row, f"{name}, row {n}") for n, row in enumerate(rows, start=1)]
    twice = [key for key, many in Counter(each.id for each in questions).items() if many > 1]
    if twice:
        raise InvalidRequest(POINTER, f"{name} holds the id {twice[0]!r} twice")
    return questions


def _rows(text: str, name: str) -> Iterator[Mapping[str, Any]]:
    if text.startswith("["):
        yield from _json(text, name)
    elif text.startswith("{"):
        for n, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield _json(line, f"{name}, line {n},")
    elif text:
        yield from _csv_rows(text, name)


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(POINTER, f"{place} is not JSON: {error}") from None


def _csv_rows(text: str, name: str) -> Iterator[Mapping[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=None))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InvalidRequest(POINTER, f"{name} is no CSV: {error}") from None
    if "question" not in (reader.fieldnames or ()):
        raise InvalidRequest(POINTER, f"{name} is CSV without a column `question`")
    for row in rows:
        cells = {key: cell.strip() for key, cell in row.items() if key and cell}
        lists = {key: cells[key].split(SEPARATOR) for key in _LISTS if cells.get(key)}
        yield {key: value for key, value in (cells | lists).items() if value}


def _question(row: object, place: str) -> EvaluationQuestion:
    try:
        return EvaluationQuestion.model_validate(row)
    except ValidationError as error:
        raise InvalidRequest(POINTER, f"{place}: {wrong_fields(error)}") from None
