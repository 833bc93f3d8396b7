"""Run store: the requests, every event as it was sent, and users' feedback.

`runs.process` is the fencing token of a run: whatever tells of it is written while it is the
writer's own, so that a process that only stood still cannot write once another has taken over.
"""

import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import NotFound
from app.schemas.ask import (
    AnswerEvent,
    AskResponse,
    DoneEvent,
    ErrorEvent,
    Event,
    Problem,
    event_of,
)
from app.schemas.runs import FeedbackRequest, Status
from app.storage.database import (
    FORGOTTEN_AT_ONCE,
    BatchWriter,
    Row,
    execute,
    now,
    reading,
    rows_of,
    values_of,
)
from app.storage.tables import (
    EVENTS,
    FEEDBACK,
    IDEMPOTENCY_KEYS,
    OUTCOMES,
    PROCESSES,
    PROMPTS,
    RESUMABLE,
    RUNS,
)
from graphs.types import Action, Verdict

LOST = Problem(
    title="Lost", status=503, detail="The process that worked on this run ended before it did."
)

MAX_RESUMED = 3
"""A run that has outlived so many processes may be what ended them."""

KEY_KEPT_S = 86_400.0
"""How long a request that comes again with its idempotency key is the same one."""

_BEGIN = RUNS.insert()
_MAY_RESUME = RESUMABLE.insert()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is kept of a run from its start; `request` and `thresholds` are JSON."""

    id: str
    owner: str
    thread_id: str
    workflow: str
    question: str
    request: str
    thresholds: str
    created_at: float


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What a client names a request by; `digest` is that of its body."""

    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """A run taken over from a dead process; `events` are those it had sent, with times."""

    record: RunRecord
    question: str
    former_process: str
    times: int
    events: Sequence[tuple[float, Event]]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What runs are looked for by; `q` is part of the question."""

    thread_id: str | None = None
    q: str = ""
    workflow: str | None = None
    status: Status | None = None
    action: Action | None = None
    verdict: Verdict | None = None


@dataclass(slots=True)
class Ending:
    """The last of a run, kept as one: status, last events, what else goes with them.

    Once written, `is_ours` tells whether it was; it is not where another process has taken over.
    """

    run_id: str
    process: str
    status: Status
    stopped_by: str | None
    rows: Sequence[Row]
    more: Sequence[tuple[Executable, Row]]
    is_ours: bool = field(default=True, init=False)

    def write(self, connection: Connection) -> None:
        ended = (
            update(RUNS)
            # Whoever ends a run knows better than those who took its process for gone.
            .where(RUNS.c.id == self.run_id, RUNS.c.process == self.process)
            .where(or_(RUNS.c.status == "running", RUNS.c.status == "lost"))
            .values(status=self.status, stopped_by=self.stopped_by, ended_at=now())
        )
        self.is_ours = connection.execute(ended).rowcount == 1
        if not self.is_ours:
            return
        numbers = [row["number"] for row in self.rows]
        # What was told where the run was given for lost.
        stale = EVENTS.c.run_id == self.run_id, EVENTS.c.number >= min(numbers)
        connection.execute(delete(EVENTS).where(*stale))
        connection.execute(EVENTS.insert(), list(self.rows))
        connection.execute(delete(RESUMABLE).where(RESUMABLE.c.run_id == self.run_id))
        for statement, row in self.more:
            connection.execute(statement, row)


@dataclass(slots=True)
class Beginning:
    """A run's first rows with its idempotency key, kept as one.

    Once written, `is_first` tells whether they were: they are not where the key has a run already.
    """

    key: Row
    claim: Any
    rows: Sequence[tuple[Executable, Row]]
    is_first: bool = field(default=True, init=False)

    def write(self, connection: Connection) -> None:
        named = _named(self.key["owner"], self.key["key"])
        connection.execute(delete(IDEMPOTENCY_KEYS).where(*named, ~(_HOLDS & _is_fresh())))
        for statement, row in self.rows:
            connection.execute(statement, row)
        self.is_first = connection.execute(self.claim, self.key).first() is not None
        if not self.is_first:
            connection.execute(delete(RUNS).where(RUNS.c.id == self.key["run_id"]))


class KeptRuns:
    """Reads take no lock; writes go through the writer, but for those of users."""

    def __init__(self, engine: AsyncEngine, writer: BatchWriter, process: str) -> None:
        self._engine, self._writer, self._process = engine, writer, process
        insert = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert
        values = {column.name: bindparam(column.name, type_=column.type) for column in EVENTS.c}
        own = select(*values.values()).where(
            RUNS.c.id == values["run_id"], RUNS.c.process == process
        )
        insertion = insert(EVENTS).from_select(list(values), own.with_for_update(read=True))
        # Also in the place of an ending told for a run that was no loss.
        self._tell = insertion.on_conflict_do_update(
            index_elements=["run_id", "number"],
            set_={name: insertion.excluded[name] for name in ("at_ms", "name", "data")},
        )
        claim = insert(IDEMPOTENCY_KEYS).on_conflict_do_nothing()
        self._claim = claim.returning(IDEMPOTENCY_KEYS.c.run_id)
        # A process that was no loss may tell an event of that number in this moment.
        self._end_lost = insert(EVENTS).on_conflict_do_nothing()
        self._cancelled = select(RUNS.c.id).where(
            RUNS.c.status == "running", RUNS.c.process == process, RUNS.c.is_cancelled.is_(True)
        )

    def begin(
        self, run: RunRecord, question: str | None = None, key: IdempotencyKey | None = None
    ) -> Beginning | None:
        """With its `question` (JSON) where another process may take the run up."""
        started = {"process": self._process, "status": "running", "is_cancelled": False}
        rows: list[tuple[Executable, Row]] = [(_BEGIN, {**asdict(run), **started})]
        if question is not None:
            rows.append((_MAY_RESUME, {"run_id": run.id, "question": question, "resumed": 0}))
        if key is None:
            for statement, row in rows:
                self._writer.add(statement, row)
            return None
        owned = {"owner": run.owner, "run_id": run.id, "created_at": run.created_at}
        beginning = Beginning({**asdict(key), **owned}, self._claim, rows)
        self._writer.add(beginning.write)
        return beginning

    async def begun_with(self, owner: str, key: str) -> tuple[str, str] | None:
        """The run of an idempotency key, and the digest of its request."""
        query = select(IDEMPOTENCY_KEYS.c.run_id, IDEMPOTENCY_KEYS.c.digest)
        held = query.where(*_named(owner, key), _HOLDS, _is_fresh())
        rows = await rows_of(self._engine, held)
        return (rows[0]["run_id"], rows[0]["digest"]) if rows else None

    def tell(self, run_id: str, number: int, at_ms: float, event: Event) -> None:
        self._writer.add(self._tell, _event_row(run_id, number, at_ms, event))

    def end(
        self,
        run_id: str,
        response: AskResponse | None,
        last: Iterable[tuple[int, float, Event]],
        more: Sequence[tuple[Executable, Row]],
        *,
        is_cancelled: bool,
        fork_data: bytes | None = None,
        prompts: bytes | None = None,
    ) -> Ending:
        """Keeps how a run ended with its last events, and what `more` says, in one transaction.

        `fork_data` is what a fork of the run would begin with, `prompts` what it sent to models.
        """
        if response is not None:
            outcome = {"action": response.action, "verdict": response.verdict, "found": fork_data}
            more = [*more, (OUTCOMES.insert(), {"run_id": run_id, **outcome})]
        if prompts is not None:
            more = [*more, (PROMPTS.insert(), {"run_id": run_id, "data": prompts})]
        ending = Ending(
            run_id,
            self._process,
            "cancelled" if is_cancelled else "done" if response else "failed",
            response.stopped_by if response else None,
            [_event_row(run_id, *each) for each in last],
            more,
        )
        self._writer.add(ending.write)
        return ending

    async def take_over(self, most: int, run_id: str | None = None) -> Sequence[Orphan]:
        """Take over runs of dead processes, the oldest first."""
        orphaned = (
            RUNS.c.status == "running",
            RUNS.c.process.not_in(select(PROCESSES.c.id)),
            RUNS.c.process != self._process,
            RESUMABLE.c.resumed < MAX_RESUMED,
            true() if run_id is None else RUNS.c.id == run_id,
        )
        query = (
            select(RUNS, RESUMABLE.c.question.label("input"), RESUMABLE.c.resumed)
            .join(RESUMABLE, RESUMABLE.c.run_id == RUNS.c.id)
            .where(*orphaned)
            .order_by(RUNS.c.created_at)
            .limit(most)
        )
        if not await rows_of(self._engine, query.limit(1)):  # mostly there are none
            return []
        async with self._engine.begin() as connection:
            locked = query.with_for_update(of=RUNS, skip_locked=True)
            rows = (await connection.execute(locked)).mappings().all()
            ids = [row["id"] for row in rows]
            await connection.execute(
                update(RUNS).where(RUNS.c.id.in_(ids)).values(process=self._process)
            )
            await connection.execute(
                update(RESUMABLE)
                .where(RESUMABLE.c.run_id.in_(ids))
                .values(resumed=RESUMABLE.c.resumed + 1)
            )
        return [await self._orphan(cast("Row", row)) for row in rows]

    async def _orphan(self, row: Row) -> Orphan:
        record = RunRecord(**{each.name: row[each.name] for each in fields(RunRecord)})
        pairs = [
            (each.at_ms, event_of(each.name, each.data)) for each in await self.events(record.id)
        ]
        events = [(at_ms, event) for at_ms, event in pairs if event is not None]
        return Orphan(record, row["input"], row["process"], row["resumed"] + 1, events)

    async def taken_away(self, run_ids: Sequence[str]) -> Sequence[str]:
        """Those of the runs that another process has taken over."""
        others = select(RUNS.c.id).where(RUNS.c.id.in_(run_ids), RUNS.c.process != self._process)
        return await values_of(self._engine, others)

    async def get(self, run_id: str, owner: str | None) -> Row:
        """The run's row; an `owner` of None may see all. Raises NotFound."""
        rows = await rows_of(self._engine, select(RUNS).where(RUNS.c.id == run_id, _of(owner)))
        if not rows:
            raise NotFound(f"There is no run {run_id}.")
        return rows[0]

    async def find(self, prefix: str) -> str:
        """The one run whose id begins so. Raises NotFound."""
        literal = prefix.replace("%", "").replace("_", "")
        query = select(RUNS.c.id).where(RUNS.c.id.like(f"{literal}%")).limit(2)
        ids = await values_of(self._engine, query)
        if len(ids) != 1 or not literal:
            several = "More than one run begins" if ids else "There is no run that begins"
            raise NotFound(f"{several} with {prefix}.")
        return str(ids[0])

    async def page(
        self, owner: str | None, limit: int, offset: int, filters: RunFilter | None = None
    ) -> tuple[Sequence[Row], int]:
        """Newest first, with action and verdict of those that answered; and how many in all."""
        chosen = [_of(owner), *_matching(filters or RunFilter())]
        joined = RUNS.outerjoin(OUTCOMES, OUTCOMES.c.run_id == RUNS.c.id)
        page = (
            select(RUNS, OUTCOMES.c.action, OUTCOMES.c.verdict)
            .select_from(joined)
            .where(*chosen)
            .order_by(RUNS.c.created_at.desc(), RUNS.c.id)
            .limit(limit)
            .offset(offset)
        )
        counted = select(func.count()).select_from(joined).where(*chosen)
        rows = await rows_of(self._engine, page)
        (total,) = await values_of(self._engine, counted)
        return rows, total

    async def events(self, run_id: str, start: int = 0) -> Sequence[Any]:
        """Rows of those written so far, from number `start` on; `data` is the line of JSON sent."""
        async with reading(self._engine) as connection:
            result = await connection.execute(
                select(EVENTS)
                .where(EVENTS.c.run_id == run_id, EVENTS.c.number >= start)
                .order_by(EVENTS.c.number)
            )
        return result.all()

    async def fork_data(self, run_id: str) -> bytes | None:
        """The saved state that a fork of the run starts from, if there is one."""
        query = select(OUTCOMES.c.found).where(OUTCOMES.c.run_id == run_id)
        return next(iter(await values_of(self._engine, query)), None)

    async def prompts(self, run_id: str) -> bytes | None:
        """What the run sent to language models, if that is kept."""
        query = select(PROMPTS.c.data).where(PROMPTS.c.run_id == run_id)
        return next(iter(await values_of(self._engine, query)), None)

    async def answers(self, run_ids: Sequence[str]) -> dict[str, str]:
        """The `answer` event's data of those that have one."""
        query = select(EVENTS.c.run_id, EVENTS.c.data).where(
            EVENTS.c.run_id.in_(run_ids), EVENTS.c.name == AnswerEvent.name
        )
        return {row["run_id"]: row["data"] for row in await rows_of(self._engine, query)}

    async def ask_to_cancel(self, run_id: str) -> None:
        """Tells the process that works on it, whichever it is."""
        under_way = update(RUNS).where(RUNS.c.id == run_id, RUNS.c.status == "running")
        await execute(self._engine, under_way.values(is_cancelled=True))

    async def to_cancel(self) -> Sequence[str]:
        """Runs of this process that somebody elsewhere has cancelled."""
        return await self._writer.look(self._cancelled)

    async def judge(self, run_id: str, feedback: FeedbackRequest) -> Row:
        """Store a user's feedback on a run's answer."""
        keys = {"id": uuid.uuid4().hex, "run_id": run_id, "created_at": now()}
        row = {**keys, **feedback.model_dump()}
        await execute(self._engine, FEEDBACK.insert(), row)
        return row

    async def judgements(self, run_id: str) -> Sequence[Row]:
        """The feedback on a run, oldest first."""
        given = select(FEEDBACK).where(FEEDBACK.c.run_id == run_id)
        return await rows_of(self._engine, given.order_by(FEEDBACK.c.created_at, FEEDBACK.c.id))

    async def judged(self) -> AsyncIterator[tuple[Row, str]]:
        """All feedback with its question, oldest first, and its run's `answer` event's data."""
        query = (
            select(FEEDBACK, RUNS.c.question, EVENTS.c.data)
            .join(RUNS, RUNS.c.id == FEEDBACK.c.run_id)
            .join(EVENTS, EVENTS.c.run_id == RUNS.c.id)
            .where(EVENTS.c.name == AnswerEvent.name)
            .order_by(FEEDBACK.c.created_at, FEEDBACK.c.id)
        )
        async with reading(self._engine) as connection:
            async for row in (await connection.stream(query)).mappings():
                yield cast("Row", row), row["data"]

    async def lose(self, processes: Sequence[str]) -> Sequence[str]:
        """End the runs of dead processes, for their followers.

        But for those that can be taken up.
        """
        conditions = (
            RUNS.c.status == "running",
            RUNS.c.process.in_(processes),
            ~exists().where(RESUMABLE.c.run_id == RUNS.c.id, RESUMABLE.c.resumed < MAX_RESUMED),
        )
        async with self._engine.begin() as connection:
            # Several processes may find them at once: each ends those that no other is ending.
            running = select(RUNS.c.id).where(*conditions).with_for_update(skip_locked=True)
            lost = (await connection.execute(running)).scalars().all()
            for run_id in lost:
                last = select(
                    func.coalesce(func.max(EVENTS.c.number), -1),
                    func.coalesce(func.max(EVENTS.c.at_ms), 0.0),
                ).where(EVENTS.c.run_id == run_id)
                number, at_ms = (await connection.execute(last)).one()
                endings = enumerate((ErrorEvent(problem=LOST), DoneEvent()), start=number + 1)
                rows = [_event_row(run_id, place, at_ms, event) for place, event in endings]
                await connection.execute(self._end_lost, rows)
            await connection.execute(
                update(RUNS).where(RUNS.c.id.in_(lost)).values(status="lost", ended_at=now())
            )
        return lost

    async def forget(self, most: int, older_than: float) -> int:
        """Removes ended runs without feedback that are too old or too many; tells how many.

        A few at a time: those left are for the next time.
        """
        forgettable = (RUNS.c.status != "running", RUNS.c.id.not_in(select(FEEDBACK.c.run_id)))
        latest_first = select(RUNS.c.created_at).where(*forgettable).order_by(
            RUNS.c.created_at.desc()
        )  # fmt: skip
        last = await values_of(self._engine, latest_first.limit(1).offset(most - 1))
        old = select(RUNS.c.id).where(*forgettable, RUNS.c.created_at < max([older_than, *last]))
        async with self._engine.begin() as connection:
            await connection.execute(delete(IDEMPOTENCY_KEYS).where(~_is_fresh()))
            deleted = await connection.execute(
                delete(RUNS).where(RUNS.c.id.in_(old.limit(FORGOTTEN_AT_ONCE)))
            )
        return deleted.rowcount


_HOLDS = exists().where(
    RUNS.c.id == IDEMPOTENCY_KEYS.c.run_id, RUNS.c.status.in_(("running", "done"))
)
"""A run that ended without its answer frees its key: whoever asks again wants one."""


def _is_fresh() -> ColumnElement[bool]:
    return IDEMPOTENCY_KEYS.c.created_at > now() - KEY_KEPT_S


def _named(owner: str, key: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return IDEMPOTENCY_KEYS.c.owner == owner, IDEMPOTENCY_KEYS.c.key == key


def _matching(filters: RunFilter) -> list[ColumnElement[bool]]:
    columns = {
        RUNS.c.thread_id: filters.thread_id,
        RUNS.c.workflow: filters.workflow,
        RUNS.c.status: filters.status,
        OUTCOMES.c.action: filters.action,
        OUTCOMES.c.verdict: filters.verdict,
    }
    chosen = [column == value for column, value in columns.items() if value is not None]
    if filters.q:
        chosen.append(RUNS.c.question.icontains(filters.q, autoescape=True))
    return chosen


def _of(owner: str | None) -> ColumnElement[bool]:
    return true() if owner is None else RUNS.c.owner == owner


def _event_row(run_id: str, number: int, at_ms: float, event: Event) -> dict[str, Any]:
    row = {"run_id": run_id, "number": number, "at_ms": at_ms}
    return {**row, "name": event.name, "data": event.data}
