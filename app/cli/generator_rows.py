"""Rows for tuning a generator: judged answers of runs, and rows in the service's own prompts."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from app.cli.terminal import fail, text_of
from graphs.generation.prompts import DraftRequest, answering_messages, direct_messages
from graphs.text.language import language_of
from graphs.types import Strip

Row = Mapping[str, Any]

_MARK = re.compile(r"\s*\[(\d+)\]")
_ROLES = {"system": "system", "human": "user"}
_END = re.compile(r"[.!?。！？]*$")


def generator_rows(judged: Iterable[tuple[Row, Row]]) -> list[dict[str, Any]]:
    """Questions with passages and answers, of (feedback with its question, answer).

    A corrected answer is what should have been written, the answer itself where its score is above
    0; of several judgements of a run the latest counts. Passages are the cited ones, then the other
    kept strips; the answer's markers name them by their new numbers. A corrected answer without
    markers gets those of the passages that hold it.
    """
    rows: dict[str, dict[str, Any] | None] = {}
    for feedback, answer in judged:
        rows[feedback["run_id"]] = _row(feedback, answer)
    return [row for row in rows.values() if row]


def prompted_row(row: Row) -> dict[str, Any]:
    """The row with `prompt`, the messages the service sends, and `completion`."""
    question = str(row["question"])
    knowledge = [
        Strip(f"s{n}", f"d{n}", passage["text"], passage.get("title", ""),
              passage.get("source", ""), "internal", (n, 0))
        for n, passage in enumerate(row.get("passages") or ())
    ]  # fmt: skip
    request = DraftRequest(question, [], knowledge, -1.0, language_of(question))
    messages = (answering_messages if knowledge else direct_messages)(request)
    return {
        **row,
        "prompt": [{"role": _ROLES[each.type], "content": str(each.text)} for each in messages],
        "completion": [{"role": "assistant", "content": row["answer"]}],
    }


def write_prompts(file: Path, out: Path) -> None:
    """Every row of `file` as the service would ask it, to the new file `out`."""
    if out.exists():
        fail(f"{out} is there already")
    made = []
    for number, line in enumerate(text_of(file).splitlines(), start=1):
        try:
            made.append(prompted_row(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError):
            fail(f"{file}:{number} is no row of question, passages and answer")
    out.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made), encoding="utf-8"
    )
    typer.echo(f"{len(made)} rows in {out}")


def _row(feedback: Row, answer: Row) -> dict[str, Any] | None:
    corrected = (feedback["corrected_answer"] or "").strip()
    if not corrected and feedback["score"] <= 0:
        return None
    titles = {document["id"]: document["title"] for document in answer["documents"]}
    passages, numbers = dict[str, dict[str, str]](), dict[str, int]()
    for citation in answer["citations"]:
        passages.setdefault(citation["text"], _passage(citation, citation["title"]))
        numbers[str(citation["n"])] = list(passages).index(citation["text"]) + 1
    for strip in answer["strips"]:
        if strip["kept"]:
            passage = _passage(strip, titles.get(strip["document_id"], ""))
            passages.setdefault(strip["text"], passage)
    target = corrected or answer["answer"]
    if corrected and not _MARK.search(corrected):
        target = _cited(corrected, list(passages))
    else:
        target = _MARK.sub(lambda mark: _renumbered(mark, numbers), target)
    question = answer.get("standalone_question") or feedback["question"]
    return {"question": question, "passages": list(passages.values()), "answer": target}


def _passage(row: Row, title: str) -> dict[str, str]:
    return {"title": title, "text": row["text"], "source": row.get("source", "")}


def _renumbered(mark: re.Match[str], numbers: Mapping[str, int]) -> str:
    number = numbers.get(mark[1])
    return mark[0].replace(f"[{mark[1]}]", f"[{number}]") if number else ""


def _cited(answer: str, passages: list[str]) -> str:
    """The answer with the markers of the passages that hold it, before its last full stop."""
    marks = "".join(
        f"[{n}]" for n, passage in enumerate(passages, start=1) if plain(answer) in plain(passage)
    )
    end = _END.search(answer)
    at = end.start() if end else len(answer)
    return f"{answer[:at]} {marks}{answer[at:]}" if marks else answer


def plain(text: str) -> str:
    """Letters and digits alone, so that case, blanks and punctuation do not tell apart."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())
