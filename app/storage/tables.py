"""The tables of runs, threads and feedback. JSON is text, exactly as it was sent."""

import sqlalchemy as sa

from app.storage.database import metadata


def _run_id(*, is_key: bool) -> sa.Column[str]:
    """The run that a row belongs to, and goes with."""
    run = sa.ForeignKey("runs.id", ondelete="CASCADE")
    return sa.Column(
        "run_id", sa.String(32), run, primary_key=is_key, nullable=False, index=not is_key
    )


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

RESUMABLE = sa.Table(
    "resumable_runs",
    metadata,
    _run_id(is_key=True),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("resumed", sa.Integer, nullable=False, default=0),
)
"""Runs under way that another process takes up if theirs is gone: from their last checkpoint, or
from the question (with its dialogue) where there is none. `resumed`: how often that was done."""

IDEMPOTENCY_KEYS = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("owner", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(200), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    _run_id(is_key=False),
    sa.Column("created_at", sa.Float, nullable=False, index=True),
)
"""What clients named their requests by, to be told the same run again; `digest` is the body's."""

EVENTS = sa.Table(
    "events",
    metadata,
    _run_id(is_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at_ms", sa.Float, nullable=False),
    sa.Column("name", sa.String(16), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)

OUTCOMES = sa.Table(
    "outcomes",
    metadata,
    _run_id(is_key=True),
    sa.Column("action", sa.String(16)),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("found", sa.LargeBinary),
)
"""How runs with an answer came out, to look for them by it; `found` is what a fork begins with."""

PROMPTS = sa.Table(
    "prompts",
    metadata,
    _run_id(is_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
"""What runs sent to language models, compressed; no row for those that asked none."""

FEEDBACK = sa.Table(
    "feedback",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    _run_id(is_key=False),
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
