"""An event stream read line by line into typed events."""

from collections.abc import Callable, Iterator

from pydantic import ValidationError

from app.client.errors import ProblemError, UnexpectedResponse
from app.document_schemas import IngestReport, ProgressEvent, ReportEvent
from app.schemas import DoneEvent, ErrorEvent, Event, RunEvent, event_of

OnProgress = Callable[[ProgressEvent], None]


class EventReader:
    """Lines of an event stream in, typed events out; `last_id` is where to go on after a break."""

    def __init__(self, run_id: str | None = None, last_id: int | None = None) -> None:
        self.run_id, self.last_id = run_id, last_id
        self.is_done = False
        self._lines: dict[str, str] = {}

    def begin_again(self) -> None:
        """What was half read when the connection broke comes again."""
        self._lines = {}

    def take(self, line: str) -> Iterator[Event]:
        """The event that ends with this line, if any; kinds unknown to this version are skipped."""
        if line and not line.startswith(":"):
            name, _, value = line.partition(":")
            self._lines[name] = value.removeprefix(" ")
            return
        if line or not (told := self._take_lines()):
            return
        number = told.get("id", "")
        if number.isdigit():
            if self.last_id is not None and int(number) <= self.last_id:
                return
            self.last_id = int(number)
        event = read_event(told.get("event", ""), told.get("data", ""))
        if isinstance(event, RunEvent):
            self.run_id = event.run_id
        self.is_done = isinstance(event, DoneEvent)
        if event is not None:
            yield event

    def _take_lines(self) -> dict[str, str]:
        told, self._lines = self._lines, {}
        return told if "data" in told else {}


def read_event(name: str, data: str) -> Event | None:
    """A run's event or an upload's. Raises UnexpectedResponse where the data are not its own."""
    try:
        for kind in (ProgressEvent, ReportEvent):
            if kind.name == name:
                return kind.model_validate_json(data)
        return event_of(name, data)
    except ValidationError as error:
        raise UnexpectedResponse(
            f"An event {name} is not as expected: {error.errors()[0]['msg']}"
        ) from error


def report_of(event: Event, on_progress: OnProgress | None) -> IngestReport | None:
    """The report, once it comes. Raises ProblemError where the upload failed."""
    if isinstance(event, ProgressEvent) and on_progress is not None:
        on_progress(event)
    if isinstance(event, ErrorEvent):
        raise ProblemError(event.problem)
    return event.report if isinstance(event, ReportEvent) else None
