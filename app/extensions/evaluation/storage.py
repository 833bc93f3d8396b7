"""Evaluation store: the requests, each answer as it arrives, the results.

An answer is found again by its key, the digest of all that it depends on: so an evaluation that was
interrupted goes on, and one that repeats another's questions asks those alone that changed.
"""

import asyncio
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import NotFound
from app.storage.database import Row, execute, metadata, now, rows_of, values_of
from app.storage.tables import PROCESSES

EVALUATIONS = sa.Table(
    "evaluations",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("owner", sa.String(64), nullable=False, index=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("process", sa.String(32), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("results", sa.LargeBinary),
    sa.Column("problem", sa.Text),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("ended_at", sa.Float),
)

ANSWERS = sa.Table(
    "evaluation_answers",
    metadata,
    sa.Column(
        "evaluation_id",
        sa.String(32),
        sa.ForeignKey("evaluations.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Index("evaluation_answers_by_key", "key"),
)

STATUS = sa.case(
    (
        sa.and_(
            EVALUATIONS.c.status == "running",
            EVALUATIONS.c.process.not_in(sa.select(PROCESSES.c.id)),
        ),
        "interrupted",
    ),
    else_=EVALUATIONS.c.status,
).label("status")
"""Of one whose process is gone it is interrupted: begun again it goes on."""
DONE = sa.case(
    (EVALUATIONS.c.status == "done", EVALUATIONS.c.total),
    else_=sa.select(sa.func.count())
    .where(ANSWERS.c.evaluation_id == EVALUATIONS.c.id)
    .scalar_subquery(),
).label("done")
"""Answers that are there."""
_SHOWN = [c for c in EVALUATIONS.c if c.name not in ("request", "results", "status")]
SUMMARY = sa.select(*_SHOWN, STATUS, DONE)
AT_ONCE = 200
"""Keys looked for by one query."""


class Evaluations:
    """The evaluations of all owners, each seen by its own."""

    def __init__(self, engine: AsyncEngine, process: str) -> None:
        self._engine, self._process = engine, process

    async def begin(self, owner: str, name: str, total: int, request: Mapping[str, object]) -> str:
        row = {
            "id": uuid.uuid4().hex,
            "owner": owner,
            "name": name,
            "process": self._process,
            "status": "running",
            "total": total,
            "request": packed(request),
            "created_at": now(),
        }
        await execute(self._engine, EVALUATIONS.insert(), row)
        return str(row["id"])

    async def end(
        self, evaluation_id: str, status: str, results: object = None, problem: str | None = None
    ) -> None:
        """With its results, or why there are none."""
        values = {"status": status, "ended_at": now(), "problem": problem}
        if results is not None:
            values["results"] = packed(results)
        mine = EVALUATIONS.c.id == evaluation_id
        await execute(self._engine, sa.update(EVALUATIONS).where(mine).values(values))

    async def get(self, evaluation_id: str, owner: str) -> Row:
        """Its row, unpacked. Raises NotFound, also where it is another's."""
        mine = (EVALUATIONS.c.id == evaluation_id, EVALUATIONS.c.owner == owner)
        query = SUMMARY.add_columns(EVALUATIONS.c.request, EVALUATIONS.c.results).where(*mine)
        rows = await rows_of(self._engine, query)
        if not rows:
            raise NotFound(f"There is no evaluation {evaluation_id!r}.")
        # In a thread: there may be megabytes of them.
        packs = rows[0]["request"], rows[0]["results"]
        request, results = await asyncio.to_thread(_unpacked, *packs)
        return {**rows[0], "request": request, "results": results}

    async def page(self, owner: str, limit: int, offset: int) -> tuple[Sequence[Row], int]:
        """Newest first, without requests and results; and how many there are."""
        mine = EVALUATIONS.c.owner == owner
        query = SUMMARY.where(mine).order_by(EVALUATIONS.c.created_at.desc())
        counted = sa.select(sa.func.count()).select_from(EVALUATIONS).where(mine)
        rows = await rows_of(self._engine, query.limit(limit).offset(offset))
        (total,) = await values_of(self._engine, counted)
        return rows, total

    async def delete(self, evaluation_id: str) -> None:
        """With its answers."""
        mine = EVALUATIONS.c.id == evaluation_id
        await execute(self._engine, sa.delete(EVALUATIONS).where(mine))

    async def keep(self, evaluation_id: str, key: str, answer: Mapping[str, object]) -> None:
        row = {"evaluation_id": evaluation_id, "key": key, "data": packed(answer)}
        await execute(self._engine, ANSWERS.insert(), row)

    async def known(self, owner: str, keys: Sequence[str]) -> dict[str, Any]:
        """Answers of any of the owner's evaluations, by key."""
        by_key: dict[str, Any] = {}
        joined = ANSWERS.join(EVALUATIONS, EVALUATIONS.c.id == ANSWERS.c.evaluation_id)
        for at in range(0, len(keys), AT_ONCE):
            query = (
                sa.select(ANSWERS.c.key, ANSWERS.c.data)
                .select_from(joined)
                .where(ANSWERS.c.key.in_(keys[at : at + AT_ONCE]), EVALUATIONS.c.owner == owner)
            )
            rows = await rows_of(self._engine, query)
            answers = await asyncio.to_thread(_unpacked, *(row["data"] for row in rows))
            by_key |= dict(zip((row["key"] for row in rows), answers, strict=True))
        return by_key


def packed(value: object) -> bytes:
    return zlib.compress(json.dumps(value, ensure_ascii=False, sort_keys=True).encode(), 6)


def _unpacked(*packed: bytes | None) -> list[Any]:
    return [None if data is None else json.loads(zlib.decompress(data)) for data in packed]
