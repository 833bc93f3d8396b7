"""Runs that outlive their process: taken up from the last checkpoint, ended once, by one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import delete, text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.runs.fork import fork_of
from app.runs.manager import Runs
from app.runs.request import RunRequest
from app.runs.run import Run
from app.schemas.ask import AnswerEvent, ErrorEvent, Event, StepEvent
from app.storage.database import reading
from app.storage.lifecycle import Store
from app.storage.tables import PROCESSES, RESUMABLE
from graphs.options import Scope
from graphs.state import Context, Question
from graphs.types import Scores, Task
from graphs.workflows.self_crag import build_self_crag
from tests import fakes
from tests.app.test_lasting import opened
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM

CALLS_OF_A_STEP = 3
"""A draft is judged for relevance, support and utility at once."""


@dataclass
class Halting(fakes.FakeEvaluator):
    """Counts what it is asked, and waits at the call of this number until it may go on."""

    halts_at: int = -1
    asked: list[Task] = field(default_factory=list)
    is_there: asyncio.Event = field(default_factory=asyncio.Event)
    may_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self.asked.append(task)
        if len(self.asked) == self.halts_at:
            self.is_there.set()
            await self.may_go.wait()
        return await super().score(task, pairs)


def runs_of(evaluator: Halting, store: Store, retriever: fakes.FakeRetriever | None = None) -> Runs:
    chosen = retriever or fakes.FakeRetriever([TOWER, TURM])
    services = fakes.services(chosen, evaluator=evaluator)
    return Runs({"self_crag": build_self_crag(services)}, services, 4, store)


async def begun(runs: Runs, question: str, scope: Scope | None = None, **how: Any) -> Run:
    context = Context(retrieval="always")
    return await runs.start(
        RunRequest("self_crag", Question(question=question), context, scope or Scope(), **how)
    )


async def gone(engine: AsyncEngine, store: Store) -> None:
    """As others see a process that was killed, or stands still."""
    await store.writer.flush()
    await store.checkpoints.flush()
    async with engine.begin() as connection:
        await connection.execute(delete(PROCESSES).where(PROCESSES.c.id == store.process))


def told(run: Run) -> dict[str, Any]:
    """What the answer says, but for names and times."""
    assert run.response is not None
    answer = run.response.model_dump(mode="json")
    return {
        name: answer[name] for name in answer if name not in ("run_id", "thread_id", "timings_ms")
    }


async def left_behind(store: Store, engine: AsyncEngine) -> int:
    """Rows of runs to be resumed, and of checkpoints."""
    tables = RESUMABLE.name, *store.checkpoints.tables
    async with reading(engine) as connection:
        counts = [await connection.scalar(text(f"SELECT count(*) FROM {it}")) for it in tables]
    return sum(count or 0 for count in counts)


def ended(events: Sequence[Event]) -> list[list[str]]:
    """The steps that have ended, by their paths."""
    steps = (event for event in events if isinstance(event, StepEvent))
    told = [step for step in steps if step.phase == "end"]
    return [step.path for step in told if "interrupted" not in step.detail]


async def uninterrupted(
    folder: Path, question: str
) -> tuple[dict[str, Any], list[list[str]], list[Task]]:
    evaluator = Halting()
    async with opened(folder) as (store, _):
        runs = runs_of(evaluator, store)
        run = await begun(runs, question)
        events = await run.all_events()
        await runs.aclose()
    return told(run), ended(events), evaluator.asked


async def assert_run_goes_on(question: str, folder: Path, address: str) -> None:
    """Wherever it was: the same answer, and no step twice but the one under way."""
    whole, steps, calls = await uninterrupted(folder / "whole", question)
    assert len(calls) >= 3
    for halt in range(1, len(calls) + 1):
        place, killed, later = folder / str(halt), Halting(halts_at=halt), Halting()
        async with (
            opened(place, database_url=address) as (store, engine),
            opened(place, database_url=address) as (other, _),
        ):
            former = runs_of(killed, store)
            run = await begun(former, question, detach=True)
            await killed.is_there.wait()
            await asyncio.sleep(0.1)
            await gone(engine, store)
            latter = runs_of(later, other)
            (resumed,) = await latter.take_over(4)
            events = await resumed.all_events()

            assert told(resumed) == whole
            assert resumed.id == run.id
            assert sorted(ended(events)) == sorted(steps), "no finished step again"
            assert len(killed.asked + later.asked) - len(calls) <= CALLS_OF_A_STEP
            steps_told = [event.phase for event in events if isinstance(event, StepEvent)]
            assert steps_told.count("start") == steps_told.count("end")
            kept = await other.runs.events(run.id)
            assert [each.name for each in kept] == [each.name for each in events]
            assert [each.number for each in kept] == list(range(len(events)))
            _, turns = await other.threads.get(run.thread_id, "")
            assert [turn["answer"] for turn in turns] == [whole["answer"]]
            await former.aclose()
            await latter.aclose()
            await store.checkpoints.flush()  # what the former one still writes, as it leaves
            await other.tidy()
            assert await left_behind(other, engine) == 0


async def test_a_run_goes_on_where_its_process_was_killed(tmp_path: Path) -> None:
    await assert_run_goes_on(CHINESE, tmp_path, "")


async def test_a_fork_goes_on_behind_the_step_that_it_began_with(tmp_path: Path) -> None:
    evaluator, later = Halting(), Halting()
    async with opened(tmp_path) as (store, engine), opened(tmp_path) as (other, _):
        former, latter = runs_of(evaluator, store), runs_of(later, other)
        first = await begun(former, ENGLISH)
        await first.all_events()
        context = Context(retrieval="always", top_strips=1)
        found, services = await store.runs.fork_data(first.id), fakes.services(evaluator=evaluator)
        fork = fork_of(first.id, ENGLISH, found, "grade", context, services)
        evaluator.halts_at = len(evaluator.asked) + 1
        question = Question(question=ENGLISH, history=[])
        await former.start(
            RunRequest("self_crag", question, context, Scope(), detach=True, fork=fork)
        )
        await evaluator.is_there.wait()
        await asyncio.sleep(0.1)
        await gone(engine, store)
        (resumed,) = await latter.take_over(4)
        steps = ended(await resumed.all_events())

        assert steps[0] == ["grade"]
        assert steps.count(["grade"]) == steps.count(["refine"]) == 1
        assert ["retrieve"] not in steps
        assert resumed.response is not None
        assert "87" in resumed.response.answer
        await former.aclose()
        await latter.aclose()


async def test_who_only_stood_still_writes_no_more(tmp_path: Path) -> None:
    evaluator = Halting(halts_at=2)
    async with opened(tmp_path) as (store, engine), opened(tmp_path) as (other, _):
        former = runs_of(evaluator, store)
        run = await begun(former, ENGLISH, detach=True)
        await evaluator.is_there.wait()
        await gone(engine, store)
        latter = runs_of(Halting(), other)
        (resumed,) = await latter.take_over(4)
        events = await resumed.all_events()

        evaluator.may_go.set()
        last = await run.outcome()
        await store.writer.flush()
        assert isinstance(last, ErrorEvent)
        assert last.problem.title == "Handed over"
        kept = await other.runs.events(run.id)
        assert [each.name for each in kept] == [each.name for each in events]
        assert (await other.runs.get(run.id, ""))["status"] == "done"
        _, turns = await other.threads.get(run.thread_id, "")
        assert len(turns) == 1
        await former.aclose()
        await latter.aclose()


async def test_a_run_that_ends_its_processes_is_given_up(tmp_path: Path) -> None:
    async with opened(tmp_path) as (first, engine):
        evaluator = Halting(halts_at=1)
        former = runs_of(evaluator, first)
        run = await begun(former, ENGLISH, detach=True)
        await evaluator.is_there.wait()
        await gone(engine, first)
        for _ in range(3):
            async with opened(tmp_path) as (store, _):
                halting = Halting(halts_at=1)
                runs = runs_of(halting, store)
                assert await runs.take_over(4)
                await halting.is_there.wait()
                await runs.aclose()
        async with opened(tmp_path) as (store, _):
            assert await runs_of(Halting(), store).take_over(4) == []
            assert (await store.runs.get(run.id, ""))["status"] == "lost"
        await former.aclose()


async def test_a_client_that_waits_is_answered_when_the_service_ends(tmp_path: Path) -> None:
    """What is detached is left to the next process instead."""
    evaluator = Halting(halts_at=2)
    async with opened(tmp_path) as (store, _):
        runs = runs_of(evaluator, store)
        waited_for = await begun(runs, ENGLISH, resumable=True)
        await evaluator.is_there.wait()
        detached = await begun(runs, CHINESE, detach=True)
        evaluator.asked.clear()
        evaluator.is_there.clear()
        await evaluator.is_there.wait()
        await runs.aclose()
        last = await waited_for.outcome()
    assert isinstance(last, AnswerEvent)
    assert last.response.stopped_by == "cancelled"
    async with opened(tmp_path) as (store, _):
        runs = runs_of(Halting(), store)
        (resumed,) = await runs.take_over(4)
        await resumed.all_events()
        await runs.aclose()
    assert resumed.id == detached.id
    assert resumed.response is not None
    assert resumed.response.stopped_by == "accepted"
