"""A run told on the terminal: steps as they happen, grades, strips, the cited answer."""

from collections.abc import Iterable
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from app.schemas.ask import AnswerEvent, AskResponse, ErrorEvent, Event, RetractEvent, StepEvent

# Their details say again what other steps have told.
REPEATING = {"judge", "prune", "revise", "reflect"}
MOST_SHOWN = 6
WIDTH = 76

WIDEST = 1_000_000
errors = Console(stderr=True)


def fail(message: str) -> NoReturn:
    """Ends the command with one line on what went wrong."""
    errors.print(f"selfcrag: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def show(table: Table) -> None:
    """On standard output; nothing is cut where it is no terminal but a pipe or a file."""
    console = Console()
    if not console.is_terminal:
        unbounded = console.options.update(max_width=WIDEST)
        console = Console(width=table.__rich_measure__(console, unbounded).maximum)
    console.print(table)


class Telling:
    """Prints one event after another."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def tell(self, event: Event) -> None:
        match event:
            case StepEvent(phase="start"):
                self._console.print(f"[dim]{event.at_ms:7.0f} ms  {' › '.join(event.path)} …[/dim]")
            case StepEvent(phase="end"):
                self._step(event)
            case RetractEvent():
                told = f"draft {event.round} retracted: {_short(event.reason)}"
                self._console.print(Text(told, style="yellow"))
            case AnswerEvent():
                self._answer(event.response)
            case ErrorEvent():
                self._console.print(f"[red]{escape(event.problem.detail)}")
            case _:
                pass

    def _step(self, event: StepEvent) -> None:
        name, took = " › ".join(event.path), event.took_ms or 0
        self._console.print(
            f"{event.at_ms:7.0f} ms  [bold]{name}[/bold] [dim]({took:.0f} ms)[/dim]"
        )
        if (entry := event.detail.get("critique")) and event.step in ROUND:
            self._console.print(ROUND[event.step](entry))
        lines = _degraded if event.step in REPEATING else self._lines
        for line in lines(event.detail):
            self._console.print(line, no_wrap=True, overflow="ellipsis")

    def _lines(self, detail: dict[str, Any]) -> Iterable[Text]:
        if found := detail.get("retrieval"):
            decided = "needed" if found["decision"] else "not needed"
            yield _line(f"retrieval: {decided}  (p {found['probability']:.2f})", "bold cyan")
        if "action" in detail:
            bounds = detail["thresholds"]
            yield _line(
                f"action: {detail['action'] or 'none'}"
                f"  (upper {bounds['upper']:.2f}, lower {bounds['lower']:.2f})",
                "bold cyan",
            )
        documents = detail.get("documents", ())
        for document in documents[:MOST_SHOWN]:
            yield _line(f"{document['score']:+.2f}  [{document['source']}]  {document['title']}")
        if len(documents) > MOST_SHOWN:
            yield _line(f"… and {len(documents) - MOST_SHOWN} more", "dim")
        yield from _strips(detail.get("strips", ()))
        if query := detail.get("rewritten_query"):
            yield _line(f"query: {query}", "cyan")
        for result in detail.get("web_results", ()):
            yield _line(f"{result['title']}  {result['url']}")
        yield from _candidates(detail.get("candidates", ()))
        yield from _degraded(detail)

    def _answer(self, response: AskResponse) -> None:
        self._console.rule(style="dim")
        self._console.print(Text(response.answer, style="bold"))
        for citation in response.citations:
            self._console.print(
                _line(f"[{citation.n}] {citation.title}  {citation.source}", "green")
            )
        if response.critique and not response.critique[-1].accepted:
            left = _one_line(response.critique[-1].criticism)
            self._console.print(Text(f"not accepted: {left}", style="yellow"))
        for entry in response.degraded:
            self._console.print(
                Text(f"degraded: {entry.component}: {entry.reason}", style="yellow")
            )
        told = f"{response.workflow} · {response.action or 'no action'} · {response.stopped_by}"
        self._console.print(Text(f"{told} · generator {response.models.generator}", style="dim"))


def _strips(strips: Iterable[dict[str, Any]]) -> Iterable[Text]:
    """The kept strips first, then some of the dropped ones."""
    ordered = sorted(strips, key=lambda strip: (not strip["kept"], -strip["score"]))
    kept = [strip for strip in ordered if strip["kept"]]
    dropped = [strip for strip in ordered if not strip["kept"]]
    for strip in kept:
        yield _line(f"kept    {strip['score']:+.2f}  {_short(strip['text'])}", "green")
    for strip in dropped[: max(0, MOST_SHOWN - len(kept))]:
        yield _line(f"dropped {strip['score']:+.2f}  {_short(strip['text'])}", "dim")
    if (hidden := len(dropped) - max(0, MOST_SHOWN - len(kept))) > 0:
        yield _line(f"… and {hidden} more dropped", "dim")


def _candidates(candidates: Iterable[dict[str, Any]]) -> Iterable[Text]:
    """Drafts that were written; what is only gathered to draft from has no answer yet."""
    for draft in candidates:
        if draft["answer"]:
            mark, style = ("chosen", "green") if draft["chosen"] else ("draft ", "")
            yield _line(f"{mark} {draft['n']}  {_judged(draft)}  {_short(draft['answer'])}", style)


def _verdict(entry: dict[str, Any]) -> Text:
    verdict, style = ("accepted", "green") if entry["accepted"] else ("rejected", "yellow")
    return _line(f"round {entry['round']}: {verdict}  {_judged(entry)}", style)


def _criticism(entry: dict[str, Any]) -> Text:
    return _line(f"criticism: {_one_line(entry['criticism'])}", "yellow")


ROUND = {"critique": _verdict, "criticise": _criticism}
"""What each step of a round adds to its entry."""


def _degraded(detail: dict[str, Any]) -> Iterable[Text]:
    for entry in detail.get("degraded", ()):
        yield _line(f"degraded: {entry['component']}: {entry['reason']}", "yellow")


def _judged(found: dict[str, Any]) -> str:
    """What was judged, a bar where it was not, and the score it makes."""
    parts = (
        f"{name} {'-' if found[name] is None else format(found[name], '.2f')}"
        for name in ("relevance", "support", "utility", "score")
    )
    return ", ".join(parts)


def _line(text: str, style: str = "") -> Text:
    return Text(f"            {text}", style=style)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    line = _one_line(text)
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
