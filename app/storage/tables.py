"""The tables of runs, threads and feedback. JSON is text, exactly as it was sent."""

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from app.storage.database import metadata

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
