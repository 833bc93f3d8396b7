"""The tables of runs, threads and feedback. JSON is text, exactly as it was sent.

Conversations that an earlier version kept as checkpoints are taken over when `turns` is made.
"""

import json
import logging
from collections import Counter
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    event,
    inspect,
    select,
    text,
)

from app.storage.database import metadata

log = logging.getLogger(__name__)

PROCESSES = Table(
    "processes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("seen_at", Float, nullable=False),
)
"""Those that serve: a run whose process is gone is lost."""

RUNS = Table(
    "runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("thread_id", String(128), nullable=False, index=True),
    Column("process", String(32), nullable=False),
    Column("workflow", String(64), nullable=False),
    Column("question", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("thresholds", Text, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("stopped_by", String(16)),
    Column("created_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("is_cancelled", Boolean, nullable=False, default=False),
    Index("runs_by_owner", "owner", "created_at"),
    Index("runs_by_age", "created_at"),
)

EVENTS = Table(
    "events",
    metadata,
    Column("run_id", String(32), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at_ms", Float, nullable=False),
    Column("name", String(16), nullable=False),
    Column("data", Text, nullable=False),
)

FEEDBACK = Table(
    "feedback",
    metadata,
    Column("id", String(32), primary_key=True),
    Column(
        "run_id",
        String(32),
        ForeignKey("runs.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("score", Float, nullable=False),
    Column("comment", Text),
    Column("corrected_answer", Text),
    Column("created_at", Float, nullable=False),
)

THREADS = Table(
    "threads",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("run_id", String(32)),
    Column("busy_until", Float),
)
"""`run_id` is the run under way on it, believed until `busy_until`, which its process renews."""

TURNS = Table(
    "turns",
    metadata,
    Column(
        "thread_id", String(128), ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("run_id", String(32), nullable=False),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("citations", Text, nullable=False),
    Column("asked_at", Float, nullable=False),
    Column("answered_at", Float, nullable=False),
)
"""What was asked and answered on a thread, numbered from 1 in their order."""

_CHECKPOINTED = {
    "sqlite": "SELECT thread_id, type, checkpoint FROM checkpoints ORDER BY checkpoint_id",
    "postgresql": """SELECT c.thread_id, b.type, b.blob FROM checkpoints c
        JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.channel = 'turn'
        AND b.version = c.checkpoint -> 'channel_versions' ->> 'turn' ORDER BY c.checkpoint_id""",
}
_CHECKPOINT_TABLES = {
    "sqlite": ("checkpoints", "writes"),
    "postgresql": ("checkpoints", "checkpoint_blobs", "checkpoint_writes"),
}


@event.listens_for(TURNS, "after_create")
def _take_over_checkpoints(_: Table, connection: Connection, **__: Any) -> None:
    """Turns that were checkpoints of LangGraph's become rows. Nothing that they name is called."""
    if not inspect(connection).has_table("checkpoints"):
        return
    # Only here: a database of this version never needs it.
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer  # noqa: PLC0415

    read = JsonPlusSerializer(allowed_msgpack_modules=None).loads_typed
    threads = set(connection.scalars(select(THREADS.c.id)))
    dialect, numbers = connection.dialect.name, Counter[str]()
    for thread_id, kind, blob in connection.execute(text(_CHECKPOINTED[dialect])).all():
        if thread_id not in threads:
            continue
        value = read((kind, bytes(blob)))
        turn = value["channel_values"]["turn"] if dialect == "sqlite" else value
        try:
            row = {**turn, "citations": json.dumps(turn["citations"], ensure_ascii=False)}
        except (TypeError, KeyError):  # no turn of ours
            continue
        numbers[thread_id] += 1
        place = {"thread_id": thread_id, "number": numbers[thread_id]}
        connection.execute(TURNS.insert(), {**row, **place})
    for name in _CHECKPOINT_TABLES[dialect]:
        ours = f"DELETE FROM {name} WHERE thread_id IN (SELECT id FROM threads)"
        connection.execute(text(ours))
    log.info("%d turns of an earlier version were taken over", numbers.total())
