"""Who is next at the model, and which pairs share a batch."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from evaluator.inference.scorer import Row, RowScore
from evaluator.schema import Task

ALIKE = 0.9  # of a batch's width: other requests' rows so long cost next to no padding
ONE_MORE = 1 / 48  # of a batch's most tokens: what it costs to have one more batch


@dataclass(eq=False)
class Job:
    """One request's pairs on their way through the model."""

    task: Task
    results: list[RowScore | str | None]
    done: asyncio.Future[None]
    asked_at: float
    missing: dict[Hashable, list[int]] = field(default_factory=dict)  # places in `results`
    waiting: list["Entry"] = field(default_factory=list)  # longest first once it takes turns
    pairs: int = 0  # not known when it came
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

    So a small request overtakes, and no stream of small ones holds a large one up for good. A turn
    is a batch, or the several narrower ones that a request is split into.
    """

    def __init__(self, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._jobs: list[Job] = []  # in order of arrival, until whoever asked has left
        self._oldest_has_turn = False
        self._leader: Job | None = None
        self._turn_left = 0  # tokens

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs)

    def add(self, job: Job) -> None:
        """From now on the job takes turns."""
        job.wait_on()
        job.waiting.sort(key=lambda entry: -entry.length)
        self._jobs.append(job)

    def remove(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)

    @property
    def waiting(self) -> list[Job]:
        """Jobs that wait for a batch, in order of arrival."""
        return [job for job in self._jobs if job.waiting and not job.done.done()]

    def next_batch(self) -> list[Entry]:
        """Entries of one task, taken off every job that waits for them; [] when none waits."""
        jobs = self.waiting
        if not jobs:
            return []
        leader = self._whose_turn(jobs)
        mates = [job for job in jobs if job is not leader and job.task == leader.task]
        batch = _batch(leader, mates, self._batch_tokens)
        for entry in batch:
            entry.taken = True
            self._turn_left -= batch[0].length if leader in entry.jobs else 0
        for job in {job for entry in batch for job in entry.jobs}:
            job.wait_on()
        return batch

    def _whose_turn(self, jobs: Sequence[Job]) -> Job:
        before = self._leader
        if before in jobs and before and before.tokens_left <= self._turn_left:
            return before
        fewest = min(jobs, key=lambda job: job.tokens_left)
        self._leader = leader = jobs[0] if self._oldest_has_turn else fewest
        self._oldest_has_turn = not self._oldest_has_turn
        self._turn_left = self._batch_tokens
        return leader


def _batch(leader: Job, mates: Sequence[Job], batch_tokens: int) -> list[Entry]:
    """As wide as the leader's longest row: its rows that pad little, then any that fill it well."""
    width = leader.waiting[0].length
    room = max(1, batch_tokens // width)
    own = leader.waiting[:room]
    own = own[: _worth_padding([entry.length for entry in own], ONE_MORE * batch_tokens)]
    others = {
        entry for job in mates for entry in job.waiting if ALIKE * width <= entry.length <= width
    }
    others.difference_update(own)
    return [*own, *sorted(others, key=lambda entry: -entry.length)[: room - len(own)]]


def _worth_padding(lengths: Sequence[int], one_more: float) -> int:
    """How many of the rows, longest first, to pad: those whose padding costs less than a batch.

    The best place to cut is cut, and the front again, until no cut saves `one_more` tokens.
    """
    count = len(lengths)
    while count > 1:
        saved = [(count - cut) * (lengths[0] - lengths[cut]) for cut in range(1, count)]
        if max(saved) <= one_more:
            break
        count = 1 + saved.index(max(saved))
    return count
