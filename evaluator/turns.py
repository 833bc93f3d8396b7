"""Who is next at the model, and which pairs share a batch."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from evaluator.schema import Task
from evaluator.scoring import Row, RowScore

ALIKE = 0.9  # of a batch's width: rows so long cost next to no padding
FILLING = 0.6  # of a batch's width: shorter rows wait for a narrower batch


@dataclass(eq=False)
class Job:
    """One request's pairs on their way through the model."""

    task: Task
    results: list[RowScore | str | None]
    done: asyncio.Future[None]
    asked_at: float
    missing: dict[Hashable, list[int]] = field(default_factory=dict)  # places in `results`
    waiting: list["Entry"] = field(default_factory=list)  # longest first once it takes turns
    rows: int = 0  # how many it took turns with at first
    tokens: int = 0  # computed because this request asked first
    tokens_left: int = 0
    queue_ms: float = 0.0
    inference_ms: float = 0.0

    def wait_on(self) -> None:
        """Bring `waiting` up to date once entries were taken by a batch."""
        self.waiting = [entry for entry in self.waiting if not entry.taken]
        self.tokens_left = sum(entry.length for entry in self.waiting)

    def settle(self, key: Hashable, result: RowScore | str) -> None:
        """Fill in one pair; with the last one the job is done."""
        for index in self.missing.pop(key, ()):
            self.results[index] = result
        if not self.missing and not self.done.done():
            self.done.set_result(None)


@dataclass(eq=False)
class Entry:
    """One pair that waits or runs, for every job that asked for it meanwhile."""

    key: Hashable
    task: Task
    row: Row
    jobs: list[Job] = field(default_factory=list, repr=False)
    taken: bool = False
    length: int = field(init=False)

    def __post_init__(self) -> None:
        self.length = len(self.row.ids)

    @property
    def wanted(self) -> bool:
        """Whether a job still waits for it."""
        return any(not job.done.done() for job in self.jobs)

    def join(self, job: Job) -> None:
        self.jobs.append(job)
        if not self.taken:
            job.waiting.append(self)


class Turns:
    """Turns alternate: the job with the fewest tokens left, then the oldest one.

    So a small request overtakes, and no stream of small ones holds a large one up for good.
    """

    def __init__(self, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._jobs: list[Job] = []  # in order of arrival, until whoever asked has left
        self._oldest_has_turn = False

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs)

    def add(self, job: Job) -> None:
        """From now on the job takes turns."""
        job.wait_on()
        job.waiting.sort(key=lambda entry: -entry.length)
        job.rows = len(job.waiting)
        self._jobs.append(job)

    def remove(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)

    @property
    def wanted(self) -> bool:
        """Whether a job waits for a batch."""
        return bool(self._waiting())

    def _waiting(self) -> list[Job]:
        return [job for job in self._jobs if job.waiting and not job.done.done()]

    def next_batch(self) -> list[Entry]:
        """Entries of one task, taken off every job that waits for them; [] when none waits."""
        jobs = self._waiting()
        if not jobs:
            return []
        leader = jobs[0] if self._oldest_has_turn else min(jobs, key=lambda job: job.tokens_left)
        self._oldest_has_turn = not self._oldest_has_turn
        mates = [job for job in jobs if job is not leader and job.task == leader.task]
        batch = _batch(leader, mates, self._batch_tokens)
        for entry in batch:
            entry.taken = True
        for job in {job for entry in batch for job in entry.jobs}:
            job.wait_on()
        return batch


def _batch(leader: Job, mates: Sequence[Job], batch_tokens: int) -> list[Entry]:
    """As wide as the leader's longest row: its own rows first, then any that fill it well.

    A request that fits into one batch is not split, whatever padding that costs.
    """
    width = leader.waiting[0].length
    room = max(1, batch_tokens // width)
    own = leader.waiting
    if leader.rows > room:
        own = [entry for entry in own if entry.length >= ALIKE * width][:room]
    others = {
        entry
        for job in (leader, *mates)
        for entry in job.waiting
        if FILLING * width <= entry.length <= width
    }
    others.difference_update(own)
    return [*own, *sorted(others, key=lambda entry: -entry.length)[: room - len(own)]]
