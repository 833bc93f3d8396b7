"""`selfcrag runs`: what was asked of the service, looked at without it; no model is called."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.cli.generator_rows import generator_rows, plain
from app.cli.terminal import RunPrinter, fail, show_table, with_engine
from app.errors import wrong_fields
from app.runs import replay
from app.schemas.ask import event_of
from app.schemas.runs import FeedbackRequest
from app.storage.database import BatchWriter
from app.storage.run_diff import RunDiff, difference
from app.storage.runs import KeptRuns

Row = Mapping[str, Any]

SHORT_ID = 8
_MARK = re.compile(r"(?<!\s)\s*\[\d+\]")
_STYLES = {"same": "", "removed": "red strike", "added": "green"}


def list_latest(limit: int) -> None:
    async def listed(runs: KeptRuns) -> None:
        rows, total = await runs.page(None, limit, 0)
        table = Table(box=None, pad_edge=False, expand=True)
        for name in ("run", "when", "workflow", "status", "stopped by"):
            table.add_column(name, no_wrap=True)
        table.add_column("question", no_wrap=True, overflow="ellipsis", ratio=1)
        for row in rows:
            when = replay.iso(row["created_at"])[:19].replace("T", " ")
            by = row["stopped_by"] or ""
            cells = (row["id"][:SHORT_ID], when, row["workflow"], row["status"], by)
            table.add_row(*cells, Text(" ".join(row["question"].split())))
        show_table(table)
        if total > len(rows):
            Console().print(f"… and {total - len(rows)} more", style="dim")

    _with_runs(listed)


def show(run: str, as_json: bool) -> None:
    async def shown(runs: KeptRuns) -> None:
        row, events = await _run_of(runs, run)
        if as_json:
            trace = replay.trace(row, events, await runs.judgements(row["id"]))
            typer.echo(json.dumps(trace, ensure_ascii=False, indent=2))
            return
        console = Console()
        console.print(Text(row["question"], style="bold"))
        console.print(Text(f"run {row['id']} · {row['status']} · {replay.iso(row['created_at'])}"))
        printer = RunPrinter(console, row["question"])
        for stored in events:
            if event := event_of(stored.name, stored.data):
                printer.tell(event)
        for entry in await runs.judgements(row["id"]):
            words = " · ".join(filter(None, (entry["comment"], entry["corrected_answer"])))
            console.print(Text(f"feedback {entry['score']:+g}  {words}", style="magenta"))

    _with_runs(shown)


def compare(first: str, second: str, as_json: bool) -> None:
    async def compared(runs: KeptRuns) -> None:
        before, after = [await _run_of(runs, name) for name in (first, second)]
        changes = difference(replay.trace(*before, ()), replay.trace(*after, ()))
        if as_json:
            typer.echo(changes.model_dump_json(indent=2))
        else:
            _tell_difference(Console(), changes)

    _with_runs(compared)


def judge(run: str, score: float, comment: str | None, corrected_answer: str | None) -> None:
    try:
        body = FeedbackRequest(score=score, comment=comment, corrected_answer=corrected_answer)
    except ValidationError as error:
        fail(wrong_fields(error))

    async def judged(runs: KeptRuns) -> None:
        run_id = await runs.find(run)
        await runs.judge(run_id, body)
        Console().print(f"kept for run {run_id}")

    _with_runs(judged)


def export(file: Path, reader: Literal["evaluator", "generator"]) -> None:
    if file.exists():
        fail(f"{file} is there already")
    make_rows = generator_rows if reader == "generator" else training_rows

    async def exported(runs: KeptRuns) -> None:
        judged = [entry async for entry in runs.judged()]
        rows = make_rows((entry, json.loads(answer)) for entry, answer in judged)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        await asyncio.to_thread(file.write_text, text, encoding="utf-8")
        Console().print(f"{len(rows)} rows of {len(judged)} judged answers in {file}")

    _with_runs(exported)


def training_rows(judged: Iterable[tuple[Row, Row]]) -> list[dict[str, Any]]:
    """Labelled pairs as the evaluator reads them, of (feedback with its question, answer).

    The strips that a good answer cites answer the question, those of a bad one do not; but a strip
    that holds the corrected answer does, whether it was cited or not. A score of 0 says nothing.
    Later feedback on a pair wins. A follow-up's question is the one that stands alone: it is the
    one the evaluator was asked.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for feedback, answer in judged:
        for row in _rows(feedback, answer):
            rows[row["question"], row["passage"]] = row
    return list(rows.values())


def _rows(feedback: Row, answer: Row) -> Iterable[dict[str, Any]]:
    question = answer.get("standalone_question") or feedback["question"]
    score, corrected = feedback["score"], feedback["corrected_answer"] or ""
    cited = {citation["text"]: citation["title"] for citation in answer["citations"]}
    titles = {document["id"]: document["title"] for document in answer["documents"]}
    others = {strip["text"]: titles.get(strip["document_id"], "") for strip in answer["strips"]}
    for passage, title in {**others, **cited}.items():
        holds_it = bool(corrected) and plain(corrected) in plain(passage)
        if not holds_it and (passage not in cited or score == 0):
            continue
        good = holds_it or score > 0
        yield {
            "question": question,
            "title": title,
            "passage": passage,
            "label": good,
            "answer": corrected or _MARK.sub("", answer["answer"]),
            "score": 1.0 if corrected and good else score,
        }


def _tell_difference(console: Console, diff: RunDiff) -> None:
    console.print(Text(f"{diff.runs[0]} → {diff.runs[1]}", style="bold"))
    for title, changes in {
        "request": diff.request,
        "decided": diff.decided,
        "critique": diff.critique,
        "usage": diff.usage,
        "ms": diff.took_ms,
    }.items():
        for change in changes:
            _line(console, title, f"{change.name}: {change.before} → {change.after}")
    for grade in diff.grades:
        _line(console, "grade", f"{grade.title}: {_grade(grade.before)} → {_grade(grade.after)}")
    for strip in diff.strips:
        text = " ".join(strip.text.split())
        _line(console, "strip", f"{strip.before or 'none'} → {strip.after or 'none'}: {text}")
    for title, pieces in {
        "path": diff.path,
        **{draft.name: draft.words for draft in diff.drafts},
        "answer": diff.answer,
    }.items():
        if pieces:
            words = ((piece.text, _STYLES[piece.kind]) for piece in pieces)
            console.print(Text.assemble((f"{title:<10}", "cyan"), *words))


def _line(console: Console, title: str, text: str) -> None:
    line = Text.assemble((f"{title:<10}", "cyan"), text)
    console.print(line, no_wrap=True, overflow="ellipsis")


def _grade(score: float | None) -> str:
    return "none" if score is None else f"{score:+.2f}"


async def _run_of(runs: KeptRuns, prefix: str) -> tuple[Row, Sequence[Any]]:
    run_id = await runs.find(prefix)
    return await runs.get(run_id, None), await runs.events(run_id)


def _with_runs(use: Callable[[KeptRuns], Awaitable[None]]) -> None:
    async def used(engine: AsyncEngine) -> None:
        async with aclosing(BatchWriter(engine.url)) as writer:
            await use(KeptRuns(engine, writer, process=""))

    with_engine(used)
