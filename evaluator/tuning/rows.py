"""Rows a generator is tuned on: files of JSON lines, and the prompt and completion of each row.

Three forms are read, told by their fields:

    {question, passages: [{title, text}], answer}   contexts and exported runs
    {prompt: [messages], completion: [message]}     chat rows, such as those of `selfcrag prompts`
    {instruction, input?, output}                   Self-RAG rows with reflection tokens

`answers` (all that count as right), `group` (what a split may not divide) and `context` may stand
beside each.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

from evaluator.data.file_formats import DataRow, read_rows
from evaluator.data.text import language_of, named_sections
from evaluator.errors import DataError

SECTIONS = named_sections(Path(__file__).with_name("prompts.txt"))


@dataclass(frozen=True, slots=True)
class TuningPassage:
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class TuningRow:
    """A question, the passages the generator is given for it, and the answer it is to write."""

    question: str
    passages: tuple[TuningPassage, ...]
    answer: str
    answers: tuple[str, ...] = ()
    group: str = ""
    context: str = ""


@dataclass(frozen=True, slots=True)
class TuningExample:
    """What the network is taught: `text` after `prompt`, chat messages or plain text.

    `answers` are what a written text is measured against.
    """

    prompt: tuple[dict[str, str], ...] | str
    text: str
    answers: tuple[str, ...]
    group: str


def read_examples(path: Path) -> list[TuningExample]:
    """The file's rows; DataError, naming the line, for one of no known form."""
    return [_example(row) for row in read_rows(path)]


def read_tuning_rows(path: Path) -> list[TuningRow]:
    """A file of questions with passages and answers; DataError for rows of another form."""
    return [tuning_row(row) for row in read_rows(path)]


def write_rows(path: Path, rows: Iterable[TuningRow | dict[str, Any]]) -> int:
    """One JSON line a row; the number of rows."""
    lines = [
        json.dumps(asdict(row) if isinstance(row, TuningRow) else row, ensure_ascii=False)
        for row in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)


def tuning_row(row: DataRow) -> TuningRow:
    passages = tuple(
        TuningPassage(" ".join(passage.title().split()), passage.text("text"))
        for passage in (row.objects("passages") if row.raw.get("passages") else ())
    )
    answer = row.text("answer")
    return TuningRow(
        row.text("question"),
        passages,
        answer,
        row.answers("answers") or (answer,),
        str(row.raw.get("group") or row.text("question")),
        str(row.raw.get("context") or ""),
    )


def messages_of(row: TuningRow) -> tuple[dict[str, str], ...]:
    """One user message: the numbered passages, if any, and the question."""
    language = language_of(row.question)
    knowledge = "\n\n".join(
        f"[{n}] {passage.title}\n{passage.text}" if passage.title else f"[{n}] {passage.text}"
        for n, passage in enumerate(row.passages, start=1)
    )
    section = SECTIONS[f"{language} {'passages' if knowledge else 'none'}"]
    content = Template(section).substitute(passages=knowledge, question=row.question)
    return ({"role": "user", "content": content},)


def self_rag_prompt(instruction: str, given: str = "") -> str:
    """The published prompt, after which the first reflection token comes."""
    middle = f"### Input:\n{given}\n\n" if given else ""
    return f"### Instruction:\n{instruction}\n\n{middle}### Response:\n"


def _example(row: DataRow) -> TuningExample:
    group = str(row.raw.get("group") or "")
    if "prompt" in row.raw:
        prompt, completion = _messages(row, "prompt"), _messages(row, "completion")
        text = "".join(message["content"] for message in completion)
        return TuningExample(prompt, text, row.answers("answers") or (text,), group or str(prompt))
    if "instruction" in row.raw:
        instruction, output = row.text("instruction"), row.text("output")
        prompt_text = self_rag_prompt(instruction, str(row.raw.get("input") or ""))
        answers = row.answers("answers")
        return TuningExample(prompt_text, output, answers, group or instruction)
    if "question" in row.raw:
        known = tuning_row(row)
        return TuningExample(messages_of(known), known.answer, known.answers, known.group)
    raise DataError(
        f"{row.where}: a row to tune on has question, passages and answer, or prompt and "
        "completion, or instruction and output."
    )


def _messages(row: DataRow, name: str) -> tuple[dict[str, str], ...]:
    if not row.raw.get(name):
        raise DataError(f"{row.where} lacks {name}: a list of chat messages.")
    messages = row.objects(name)
    return tuple({"role": each.text("role"), "content": each.text("content")} for each in messages)
