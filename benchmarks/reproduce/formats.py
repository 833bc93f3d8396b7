"""Published question files as examples, keyed by id.

Known by their fields, whatever the file is called: Self-RAG's evaluation files (`ctxs`), PopQA,
PubHealth, ARC, TriviaQA, lists of biographies, ASQA, SQuAD and what looks like it, RGB; as JSON,
JSON lines, TSV or a name a line, gzip-compressed or not.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from graphs.text.language import language_of
from graphs.types import Language

Row = Mapping[str, Any]
Role = Literal["context", "positive", "negative", "counterfactual"]
Kind = Literal["short", "closed", "long"]

MAX_CHARS = 20_000
"""What `POST /ask` takes of a passage."""
IDS = ("id", "q_id", "qid", "question_id", "QuestionId", "sample_id", "_id")
QUESTIONS = ("question", "Question", "ambiguous_question", "claim", "query", "instruction", "input")
NAMES = ("topic", "entity", "name")
ANSWERS = ("possible_answers", "golds", "answers", "answer", "Answer", "output", "short_answers",
           "answerKey", "label")  # fmt: skip
CONTEXTS = ("ctxs", "docs", "contexts")
TEXTS = ("text", "passage", "contents", "body", "context")
SPLITS = ("dev", "test", "validation", "train")
TRUTH = {"true": "true", "supports": "true", "supported": "true",
         "false": "false", "refutes": "false", "refuted": "false"}  # fmt: skip
IS_IT_TRUE = "Is this statement true or false? {}"
WHO_IS = {"en": "Tell me about the life and work of {}.", "zh": "请介绍{}的生平。"}


class UnknownFormat(Exception):
    """A file that holds no questions; the message names it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A text that came with a question; `role` is what its file says of it."""

    text: str
    title: str = ""
    role: Role = "context"


@dataclass(frozen=True, slots=True)
class BenchmarkExample:
    """A question with its gold: `answers` are groups, of each of which one has to be said.

    `parts` are the readings of an ambiguous question with their answers (ASQA), `wrong` the answers
    that counterfactual evidence suggests (RGB).
    """

    id: str
    question: str
    answers: tuple[tuple[str, ...], ...] = ()
    evidence: tuple[Evidence, ...] = ()
    choices: tuple[str, ...] = ()
    long_answers: tuple[str, ...] = ()
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    wrong: tuple[str, ...] = ()
    answerable: bool = True

    @property
    def kind(self) -> Kind:
        if self.choices:
            return "closed"
        is_short = bool(self.answers or not self.answerable) and not self.long_answers
        return "short" if is_short and not self.parts else "long"

    @property
    def language(self) -> Language:
        return language_of(self.question)

    @property
    def golds(self) -> list[str]:
        """Every right answer, whatever its group."""
        return [answer for group in self.answers for answer in group]


def read_examples(path: Path) -> list[BenchmarkExample]:
    """Raises UnknownFormat, also where two questions have one id."""
    examples: dict[str, BenchmarkExample] = {}
    for row in _rows(_text_of(path), path):
        example = _example(row, path)
        if examples.setdefault(example.id, example) != example:
            raise UnknownFormat(f"{path}: the id {example.id!r} stands for two questions")
    if not examples:
        raise UnknownFormat(f"{path} holds no question")
    return list(examples.values())


def read_corpus(path: Path) -> list[Evidence]:
    """Passages without questions. Raises UnknownFormat."""
    found = [_evidence(row, "context") for row in _rows(_text_of(path), path)]
    return [each for each in found if each.text]


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    return data.decode("utf-8-sig")


def _rows(text: str, path: Path) -> Iterator[Row]:
    if text.lstrip()[:1] in ("{", "["):
        yield from _in_containers(_parsed(text, path))
    elif "\t" in text.split("\n", 1)[0]:
        yield from csv.DictReader(io.StringIO(text), delimiter="\t")
    else:
        yield from ({"name": line.strip()} for line in text.splitlines() if line.strip())


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as whole:
        try:
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        except json.JSONDecodeError:
            raise UnknownFormat(f"{path} is neither JSON nor JSON lines: {whole}") from None


def _in_containers(found: Any) -> Iterator[Row]:
    """Rows of a list, of SQuAD's articles, of TriviaQA's `Data`, of splits, or keyed by id."""
    if isinstance(found, list):
        for row in found:
            yield from _of_articles(row)
    elif isinstance(found, dict) and _first(found, (*QUESTIONS, *NAMES, *TEXTS)) is not None:
        yield found
    elif isinstance(found, dict):
        inside = _first(found, ("data", "Data", *SPLITS))
        if inside is not None:
            yield from _in_containers(inside)
        else:
            yield from ({"id": key, **row} for key, row in found.items() if isinstance(row, dict))


def _of_articles(row: Any) -> Iterator[Row]:
    if not isinstance(row, dict):
        return
    if "paragraphs" not in row:
        yield row
        return
    for paragraph in row["paragraphs"]:
        about = {"title": row.get("title", ""), "passage": paragraph["context"]}
        yield from ({**about, **question} for question in paragraph["qas"])


def _example(row: Row, path: Path) -> BenchmarkExample:
    asked = _first(row, QUESTIONS)
    if isinstance(asked, dict):  # ARC
        row, asked = {**row, "choices": asked.get("choices")}, asked.get("stem")
    if asked is None and (name := _first(row, NAMES)):
        asked = WHO_IS[language_of(name)].format(name)
    if not isinstance(asked, str) or not asked.strip():
        raise UnknownFormat(f"{path}: a row without a question: {str(dict(row))[:80]}")
    gold = _first(row, ANSWERS)
    own = _first(row, IDS)
    digest = sha256(json.dumps([asked, gold], ensure_ascii=False).encode()).hexdigest()[:12]
    evidence = tuple(each for each in _evidences(row) if each.text)
    plain = BenchmarkExample(digest if own is None else str(own), asked.strip(), (), evidence)
    if row.get("choices"):
        return _with_choices(plain, row["choices"], gold)
    stated = [TRUTH.get(each.lower()) for each in _strings(gold)]
    if stated and all(stated) and ("claim" in row or "label" in row):
        said = IS_IT_TRUE.format(plain.question)
        return replace(
            plain, question=said, answers=((str(stated[0]),),), choices=("true", "false")
        )
    return replace(
        plain,
        answers=_groups(gold, apart="positive" in row),
        answerable=_is_answerable(row),
        wrong=tuple(_strings(row.get("fakeanswer"))),
        parts=tuple(
            (str(part.get("question", "")), tuple(_strings(part.get("short_answers"))))
            for part in row.get("qa_pairs") or ()
        ),
        long_answers=tuple(
            each["long_answer"] for each in row.get("annotations") or () if each.get("long_answer")
        ) or (tuple(_strings(gold)) if "qa_pairs" in row else ()),
    )  # fmt: skip


def _with_choices(plain: BenchmarkExample, given: Any, key: Any) -> BenchmarkExample:
    """ARC's choices, as a list of objects (AI2) or as two lists; the gold is one of their texts."""
    if isinstance(given, dict):
        given = [
            {"label": label, "text": text}
            for label, text in zip(given["label"], given["text"], strict=True)
        ]
    texts = {str(each["label"]): str(each["text"]).strip() for each in given}
    gold = tuple(texts.get(each, each) for each in _strings(key))
    return replace(plain, answers=(gold,), choices=tuple(dict.fromkeys(texts.values())))


def _groups(gold: Any, *, apart: bool) -> tuple[tuple[str, ...], ...]:
    """RGB lists what has to be said together, each a text or its aliases; others list aliases."""
    if apart and isinstance(gold, list):
        groups = [tuple(_strings(each)) for each in gold]
    else:
        groups = [tuple(_strings(gold))]
    return tuple(group for group in groups if group)


def _evidences(row: Row) -> Iterator[Evidence]:
    for context in _first(row, CONTEXTS) or ():
        yield _evidence(context, "context")
    roles: tuple[tuple[str, Role], ...] = (
        ("positive", "positive"), ("negative", "negative"), ("positive_wrong", "counterfactual")
    )  # fmt: skip
    for name, role in roles:
        yield from (Evidence(text[:MAX_CHARS], "", role) for text in _interleaved(row.get(name)))
    if isinstance(row.get("passage"), str):
        yield _evidence(row, "positive" if _is_answerable(row) else "negative")


def _is_answerable(row: Row) -> bool:
    return bool(row.get("answerable", not row.get("is_impossible", False)))


def _interleaved(value: Any) -> list[str]:
    """RGB's evidence for a question of several parts is a list a part: the first of each first."""
    if not isinstance(value, list):
        return []
    rounds = zip_longest(*(_strings(each) for each in value))
    return [text for texts in rounds for text in texts if text]


def _evidence(row: Any, role: Role) -> Evidence:
    if isinstance(row, str):
        return Evidence(row[:MAX_CHARS], "", role)
    title = str(row.get("title") or "").replace("_", " ")
    return Evidence(str(_first(row, TEXTS) or "").strip()[:MAX_CHARS], title[:500], role)


def _strings(value: Any) -> list[str]:
    """The texts in a value, each once: lists within lists, JSON in a cell, TriviaQA's aliases."""
    if value is None:
        return []
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                return _strings(json.loads(value))
            except json.JSONDecodeError:
                pass
        return [value.strip()] if value.strip() else []
    if isinstance(value, dict):
        known = ("text", "answer", "Value", "Aliases")
        return _strings([value[name] for name in known if value.get(name)])
    if isinstance(value, Sequence):
        return list(dict.fromkeys(text for each in value for text in _strings(each)))
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def _first(row: Row, names: Sequence[str]) -> Any:
    """The first of the fields that says anything; an id of 0 does."""
    return next((row[name] for name in names if row.get(name) not in (None, "", [])), None)
