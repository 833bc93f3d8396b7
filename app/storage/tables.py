"""The tables of runs, threads and feedback. JSON is text, exactly as it was sent.

Conversations that an earlier version kept as checkpoints are taken over when `turns` is made.
"""

import json
import logging
from collections import Counter
from typing import Any

import sqlalchemy as sa

from app.storage.database import metadata

log = logging.getLogger(__name__)

PROCESSES = sa.Table(
    "processes",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("seen_at", sa.Float, nullable=False),
)
"""Those that serve: a run whose process is gone is lost."""

RUNS = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("owner", sa.String(64), nullable=False),
    sa.Column("thread_id", sa.String(128), nullable=False, index=True),
    sa.Column("process", sa.String(32), nullable=False),
    sa.Column("workflow", sa.String(64), nullable=False),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("thresholds", sa.Text, nullable=False),
    sa.Column("status", sa.String(16), nullable=False, index=True),
    sa.Column("stopped_by", sa.String(16)),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("ended_at", sa.Float),
    sa.Column("is_cancelled", sa.Boolean, nullable=False, default=False),
    sa.Index("runs_by_owner", "owner", "created_at"),
    sa.Index("runs_by_age", "created_at"),
)

EVENTS = sa.Table(
    "events",
    metadata,
    sa.Column(
        "run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at_ms", sa.Float, nullable=False),
    sa.Column("name", sa.String(16), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)

FEEDBACK = sa.Table(
    "feedback",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column(
        "run_id",
        sa.String(32),
        sa.ForeignKey("runs.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("comment", sa.Text),
    sa.Column("corrected_answer", sa.Text),
    sa.Column("created_at", sa.Float, nullable=False),
)

THREADS = sa.Table(
    "threads",
    metadata,
    sa.Column("id", sa.String(128), primary_key=True),
    sa.Column("owner", sa.String(64), nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
    sa.Column("run_id", sa.String(32)),
    sa.Column("busy_until", sa.Float),
)
"""`run_id` is the run under way on it, believed until `busy_until`, which its process renews."""

TURNS = sa.Table(
    "turns",
    metadata,
    sa.Column(
        "thread_id",
        sa.String(128),
        sa.ForeignKey("threads.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("run_id", sa.String(32), nullable=False),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("citations", sa.Text, nullable=False),
    sa.Column("asked_at", sa.Float, nullable=False),
    sa.Column("answered_at", sa.Float, nullable=False),
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


@sa.event.listens_for(TURNS, "after_create")
def _take_over_checkpoints(_: sa.Table, connection: sa.Connection, **__: Any) -> None:
    """Turns that were checkpoints of LangGraph's become rows. Nothing that they name is called."""
    if not sa.inspect(connection).has_table("checkpoints"):
        return
    # Only here: a database of this version never needs it.
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer  # noqa: PLC0415

    read = JsonPlusSerializer(allowed_msgpack_modules=None).loads_typed
    threads = set(connection.scalars(sa.select(THREADS.c.id)))
    dialect, numbers = connection.dialect.name, Counter[str]()
    for thread_id, kind, blob in connection.execute(sa.text(_CHECKPOINTED[dialect])).all():
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
        connection.execute(sa.text(ours))
    log.info("%d turns of an earlier version were taken over", numbers.total())
