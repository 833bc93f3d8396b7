"""A run told on the terminal: steps as they happen, grades, strips, the cited answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import ServiceError
from app.observability.redaction import redact
from app.protocols.progress_text import REPEATING, ProgressText
from app.schemas.ask import (
    COLLECTION_RULE,
    AnswerEvent,
    AskResponse,
    CollectionName,
    ErrorEvent,
    Event,
    RetractEvent,
    StepEvent,
)
from app.settings import StateSettings, load_settings
from app.storage.database import database_url, open_engine, unusable

T = TypeVar("T")

MAX_LISTED = 6
MAX_LINE_CHARS = 76
MAX_TABLE_CHARS = 1_000_000
errors = Console(stderr=True)


def fail(message: str) -> NoReturn:
    """Ends the command with one line on what went wrong."""
    line = f"selfcrag: {redact(message)}"
    errors.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def ends_at_failure(*kinds: type[Exception]) -> Iterator[None]:
    """Ends the command with what a ServiceError says, or an error of these kinds."""
    expected: tuple[type[Exception], ...] = (ServiceError, *kinds)
    try:
        yield
    except expected as error:
        fail(str(error))


def text_of(file: Path) -> str:
    """What the file holds; where it cannot be read as UTF-8 the command ends."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}")


def checked_collection(name: str) -> str:
    """The collection's name in the form in which it is kept; of no such name the command ends."""
    try:
        return TypeAdapter[str](CollectionName).validate_python(name)
    except ValidationError:
        fail(f"--collection {name}: a name has {COLLECTION_RULE}")


def with_engine(act: Callable[[AsyncEngine], Awaitable[T]]) -> T:
    """What `act` finds in the database of the settings; where it cannot, the command ends."""

    async def acted() -> T:
        async with open_engine(load_settings(StateSettings)) as engine:
            return await act(engine)

    try:
        return asyncio.run(acted())
    except SQLAlchemyError as error:
        fail(unusable(database_url(load_settings(StateSettings)), error))
    except (ServiceError, OSError) as error:
        fail(str(error))


def show_table(table: Table) -> None:
    """On standard output; nothing is cut where it is no terminal but a pipe or a file."""
    console = Console()
    if not console.is_terminal:
        unbounded = console.options.update(max_width=MAX_TABLE_CHARS)
        console = Console(width=table.__rich_measure__(console, unbounded).maximum)
    console.print(table)


class RunPrinter:
    """Prints the events of one run, one after another."""

    def __init__(self, console: Console, question: str) -> None:
        self._console, self._progress = console, ProgressText(question)

    def tell(self, event: Event) -> None:
        match event:
            case StepEvent(phase="start"):
                self._console.print(f"[dim]{event.at_ms:7.0f} ms  {' › '.join(event.path)} …[/dim]")
            case StepEvent(phase="end"):
                name, took = " › ".join(event.path), event.took_ms or 0
                self._console.print(
                    f"{event.at_ms:7.0f} ms  [bold]{name}[/bold] [dim]({took:.0f} ms)[/dim]"
                )
                self._say(event, "bold cyan")
                if event.step not in REPEATING:
                    for line in _lists(event.detail):
                        self._console.print(line, no_wrap=True, overflow="ellipsis")
            case RetractEvent():
                self._say(event, "yellow")
            case AnswerEvent():
                self._answer(event.response)
            case ErrorEvent():
                self._console.print(f"[red]{escape(event.problem.detail)}")

    def _say(self, event: Event, style: str) -> None:
        for line in self._progress.lines(event):
            self._console.print(_line(line, style))

    def _answer(self, response: AskResponse) -> None:
        self._console.rule(style="dim")
        self._console.print(Text(response.answer, style="bold"))
        for cited in response.citations:
            self._console.print(_line(f"[{cited.n}] {cited.title}  {cited.source}", "green"))
        if response.critique and not response.critique[-1].accepted:
            left = " ".join(response.critique[-1].criticism.split())
            self._console.print(Text(f"not accepted: {left}", style="yellow"))
        for entry in response.degraded:
            self._console.print(
                Text(f"degraded: {entry.component}: {entry.reason}", style="yellow")
            )
        ending = f"{response.workflow} · {response.action or 'no action'} · {response.stopped_by}"
        self._console.print(Text(f"{ending} · generator {response.models.generator}", style="dim"))


def _lists(detail: dict[str, Any]) -> Iterable[Text]:
    """What a step graded, kept, found or drafted."""
    documents = detail.get("documents", ())
    for document in documents[:MAX_LISTED]:
        yield _line(f"{document['score']:+.2f}  [{document['source']}]  {document['title']}")
    if len(documents) > MAX_LISTED:
        yield _line(f"… and {len(documents) - MAX_LISTED} more", "dim")
    yield from _strips(detail.get("strips", ()))
    for result in detail.get("web_results", ()):
        yield _line(f"{result['title']}  {result['url']}")
    for draft in detail.get("candidates", ()):
        if draft["answer"]:  # what is only gathered to draft from has none yet
            mark, style = ("chosen", "green") if draft["chosen"] else ("draft ", "")
            yield _line(f"{mark} {draft['n']}  {_judged(draft)}  {_short(draft['answer'])}", style)


def _strips(strips: Iterable[dict[str, Any]]) -> Iterable[Text]:
    """The kept strips first, then some of the dropped ones."""
    ordered = sorted(strips, key=lambda strip: (not strip["kept"], -strip["score"]))
    selected = [strip for strip in ordered if strip["kept"]]
    dropped = ordered[len(selected) :]
    shown = max(0, MAX_LISTED - len(selected))
    for strip in selected:
        yield _line(f"kept    {strip['score']:+.2f}  {_short(strip['text'])}", "green")
    for strip in dropped[:shown]:
        yield _line(f"dropped {strip['score']:+.2f}  {_short(strip['text'])}", "dim")
    if len(dropped) > shown:
        yield _line(f"… and {len(dropped) - shown} more dropped", "dim")


def _judged(draft: dict[str, Any]) -> str:
    """What was judged, a bar where it was not, and the score it makes."""
    names = ("relevance", "support", "utility", "score")
    return ", ".join(
        f"{name} {'-' if draft[name] is None else format(draft[name], '.2f')}" for name in names
    )


def _line(text: str, style: str = "") -> Text:
    return Text(f"            {text}", style=style)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_CHARS else line[: MAX_LINE_CHARS - 1] + "…"
