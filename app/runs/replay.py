"""Replay of stored runs: their trace, and their events as they were sent."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from app.errors import NotFound
from app.schemas.ask import AnswerEvent, DoneEvent, ErrorEvent, Event, event_of, sent
from app.schemas.runs import Feedback, RunSummary, Thread, ThreadMessage
from app.storage.database import Row
from app.storage.runs import KeptRuns

POLL_S = 0.1
"""How often a run of another process is looked at; its events come in batches anyway."""


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def summary(row: Row, answer: str | None) -> RunSummary:
    """Of its row and the data of its `answer` event, if it has one."""
    fields = {
        "run_id": row["id"],
        "action": row.get("action"),
        "verdict": row.get("verdict"),
        "answer": None if answer is None else json.loads(answer)["answer"],
        "created_at": iso(row["created_at"]),
        "ended_at": None if row["ended_at"] is None else iso(row["ended_at"]),
    }
    return RunSummary(**{**row, **fields})


def feedback(row: Row) -> Feedback:
    return Feedback(**{**row, "created_at": iso(row["created_at"])})


def thread(row: Row, turns: Iterable[Row]) -> Thread:
    return Thread(
        thread_id=row["id"],
        created_at=iso(row["created_at"]),
        updated_at=iso(row["updated_at"]),
        messages=[message for turn in turns for message in _messages(turn)],
    )


def _messages(turn: Row) -> tuple[ThreadMessage, ThreadMessage]:
    question = ThreadMessage(
        role="user",
        content=turn["question"],
        run_id=turn["run_id"],
        created_at=iso(turn["asked_at"]),
    )
    answer = ThreadMessage(
        role="assistant",
        content=turn["answer"],
        run_id=turn["run_id"],
        created_at=iso(turn["answered_at"]),
        citations=json.loads(turn["citations"]),
    )
    return question, answer


def trace(row: Row, events: Sequence[Any], judgements: Sequence[Row]) -> dict[str, Any]:
    """A StoredRun as JSON, its parts exactly as they were sent."""
    sent_events = [
        {"number": e.number, "at_ms": e.at_ms, "name": e.name, "data": json.loads(e.data)}
        for e in events
    ]
    last = {event["name"]: event["data"] for event in sent_events}
    return {
        **summary(row, None).model_dump(mode="json", exclude={"action", "verdict"}),
        "request": json.loads(row["request"]),
        "thresholds": json.loads(row["thresholds"]),
        "answer": last.get(AnswerEvent.name),
        "error": last.get(ErrorEvent.name),
        "events": sent_events,
        "feedback": [feedback(entry).model_dump(mode="json") for entry in judgements],
    }


async def stored_events(runs: KeptRuns, run_id: str, start: int = 0) -> AsyncGenerator[Any]:
    """Rows of the events from `start` on; those of a run under way as they are kept."""
    while True:
        # Looked at before the events: what an ended run has told is all there.
        try:
            is_running = (await runs.get(run_id, None))["status"] == "running"
        except NotFound:  # its thread was deleted meanwhile
            return
        for event in await runs.events(run_id, start):
            yield event
            if event.name == DoneEvent.name:
                return
            start = event.number + 1
        if not is_running:
            return
        await asyncio.sleep(POLL_S)


async def replayed(
    runs: KeptRuns, run_id: str, start: int, encode: Callable[[int, Event], str] | None = None
) -> AsyncGenerator[str]:
    """The events from `start` on as they were sent, or as `encode` words them."""
    async with aclosing(stored_events(runs, run_id, start)) as events:
        async for stored in events:
            if encode is None:
                yield sent(stored.number, stored.name, stored.data)
            elif (event := event_of(stored.name, stored.data)) is not None:
                yield encode(stored.number, event)


async def outcome(runs: KeptRuns, run_id: str) -> AnswerEvent | ErrorEvent:
    """The final event, once the run has ended. Raises NotFound where it is deleted before."""
    last: Event | None = None
    async for stored in stored_events(runs, run_id):
        if stored.name in (AnswerEvent.name, ErrorEvent.name):
            last = event_of(stored.name, stored.data)
    if isinstance(last, AnswerEvent | ErrorEvent):
        return last
    raise NotFound(f"Run {run_id} was deleted before its end.")
