"""Structured logs: a line for each run that ended and each part that failed, as text or as JSON.

Lines carry ids, counts and reasons, never the text of a question or an answer. What belongs to a
request (its id, its trace) is told by every line that is written while it is served.
"""

import json
import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from uvicorn.logging import AccessFormatter, DefaultFormatter

from app.observability.redaction import redact
from app.schemas import ask

REPEATS_EVERY_S = 60.0
NO_SOCKET = "socket.accept() out of system resource"
"""How asyncio begins to say that no connection can be taken, thousands of times a second."""
NO_PLACE = "Exceeded concurrency limit"
"""How uvicorn says for each request that there are too many connections."""
STOPPED_STATUS = 503

request_fields: ContextVar[Mapping[str, str]] = ContextVar("request_fields")
"""`request_id` and `trace_id` of the request under way; its tasks inherit them."""
traceparent: ContextVar[str] = ContextVar("traceparent", default="")
"""That of the request under way (W3C Trace Context); empty where it has none."""

log = logging.getLogger("app.runs")


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a line besides its message; empty ones are left out."""
    fields = {**getattr(record, "fields", {}), **request_fields.get({})}
    return {
        name: redact(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value not in (None, "", [])
    }


def as_text(fields: Mapping[str, Any]) -> str:
    """`name=value` pairs; a value that is no single word is quoted as JSON does."""
    return " ".join(f"{name}={_word(value)}" for name, value in fields.items())


def _word(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    is_word = text.isprintable() and not set(text) & set(' "=\\')
    return text if is_word else json.dumps(text)


class TextFormatter(logging.Formatter):
    """A line with its fields at its end, before a traceback."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return " ".join(filter(None, (super().formatMessage(record), as_text(fields_of(record)))))


class ServerTextFormatter(TextFormatter, DefaultFormatter):
    """The same for the lines of uvicorn."""


class AccessTextFormatter(TextFormatter, AccessFormatter):
    """The same for the lines that uvicorn writes for each request."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line; a traceback is the string `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone()
        line: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line, default=str)


class Seldom(logging.Filter):
    """Lets lines that begin like `start` pass once in REPEATS_EVERY_S."""

    def __init__(self, start: str) -> None:
        super().__init__()
        self._start, self._next_s = start, 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith(self._start):
            return True
        if (now_s := time.monotonic()) < self._next_s:
            return False
        self._next_s = now_s + REPEATS_EVERY_S
        return True


@dataclass
class _UnderWay:
    fields: dict[str, Any]
    began_s: float


class RunLog:
    """Log a line for each run that ended, each part it went on without, and each fault of ours."""

    def __init__(self) -> None:
        self._under_way: dict[str, _UnderWay] = {}

    def observe(self, run_id: str, event: ask.Event) -> None:
        """To be called with every event, in order, as it comes."""
        if isinstance(event, ask.RunEvent):
            fields = {
                "run_id": run_id,
                "thread_id": event.thread_id,
                "owner": event.owner,
                "workflow": event.workflow,
            }
            self._under_way[run_id] = _UnderWay(fields, time.perf_counter())
        elif (run := self._under_way.get(run_id)) is None:
            return
        elif isinstance(event, ask.AnswerEvent):
            self._answered(run.fields, event.response)
        elif isinstance(event, ask.ErrorEvent):
            self._failed(run.fields, event.problem)
        elif isinstance(event, ask.DoneEvent):
            del self._under_way[run_id]
            took_ms = round((time.perf_counter() - run.began_s) * 1000, 1)
            _write(logging.INFO, "run ended", {**run.fields, "took_ms": took_ms})

    def _answered(self, fields: dict[str, Any], response: ask.AskResponse) -> None:
        for entry in response.degraded:
            details = {"component": entry.component, "reason": entry.reason}
            _write(logging.WARNING, "run degraded", {**fields, **details})
        fields["action"] = response.action
        fields["stopped_by"] = response.stopped_by
        fields["verdict"] = response.verdict
        fields["confidence"] = response.confidence
        fields["degraded"] = sorted({entry.component for entry in response.degraded})

    def _failed(self, fields: dict[str, Any], problem: ask.Problem) -> None:
        if problem.status == STOPPED_STATUS:
            fields["stopped_by"] = "cancelled"
            return
        details = {"status": problem.status, "title": problem.title}
        _write(logging.ERROR, "run failed", {**fields, **details})
        fields["stopped_by"] = "failed"


def _write(level: int, message: str, fields: Mapping[str, Any]) -> None:
    log.log(level, message, extra={"fields": fields})
