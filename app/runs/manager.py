"""Run manager: start and cancel runs, and report their events to the store and observers."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, replace

from pydantic_core import to_jsonable_python
from sqlalchemy.exc import SQLAlchemyError

from app.errors import AlreadyBegun, InvalidRequest
from app.runs import prompts
from app.runs.admission import WAIT_S, Admission, Place, Quotas
from app.runs.fork import packed
from app.runs.request import RunRequest
from app.runs.run import HANDED_OVER, Checkpoints, Ended, Run
from app.schemas.ask import (
    AnswerEvent,
    AskResponse,
    DoneEvent,
    ErrorEvent,
    Event,
    as_json,
)
from app.storage.checkpoints import checkpoint_thread
from app.storage.lifecycle import Store
from app.storage.runs import LOST, Ending, Orphan, RunRecord
from graphs.options import DEFAULT_COLLECTION, Preset, Scope
from graphs.ports import Services
from graphs.state import Context
from graphs.workflows.registry import Graph

log = logging.getLogger(__name__)

CANCELS_EVERY_S = 0.05
"""How often a run learns that it was cancelled at another process."""
KEPT_WITHIN_S = 5.0
"""Longest wait of an answer for its thread to be written; then it is told all the same."""
ENDED_WITHIN_S = 1.0
"""Longest time for the runs' best answers so far when the service ends."""
TAKES_OVER_EVERY_S = 2.0
"""How often runs of processes that are gone are looked for."""
LAST_EVENTS = (AnswerEvent, ErrorEvent, DoneEvent)
"""They are kept as one, with the run's status and its turn."""
NEEDS_COMPRESSOR = "needs SELFCRAG_EVALUATOR_COMPRESSOR"
STORE_ERRORS = (SQLAlchemyError, OSError, TimeoutError)

Observe = Callable[[str, Event], None]


class Runs:
    """At most `most` at once, fewer where this machine is busy with them; others wait a while.

    `observers` are called with every event of every run, in order. `keeps_prompts`: what runs send
    to language models is kept with them.

    Without a `store` nothing is kept: no thread goes on, no run can be looked at later.
    """

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        services: Services,
        most: int,
        store: Store | None = None,
        *,
        preset: Preset = "none",
        observers: Sequence[Observe] = (),
        quotas: Quotas | None = None,
        keeps_prompts: bool = False,
        queue_wait_s: float = WAIT_S,
    ) -> None:
        self._graphs, self._services = graphs, services
        self.admission, self.quotas = Admission(most, queue_wait_s), quotas or Quotas({})
        self._store, self._preset, self._observers = store, preset, observers
        self._keeps_prompts = keeps_prompts
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._live: dict[str, Run] = {}
        self._watching: asyncio.Task[None] | None = None
        self._taking_over: asyncio.Task[None] | None = None
        self._forgetting = set[asyncio.Task[None]]()

    async def start(self, request: RunRequest) -> Run:
        """Admit and begin a run.

        Raises InvalidRequest as `checked_options` does, QuotaExceeded, TooManyRuns when no place is
        free in time, ThreadBusy when a run is on this thread, NotFound where the thread is
        another's, AlreadyBegun where another run has the `key`.
        """
        context = checked_options(request.context, self._preset, self._services)
        request, owner = replace(request, context=context), request.scope.owner
        await self.quotas.take("runs", owner)
        place = await self.admission.enter(owner, context.deadline_ms / 1000)
        try:
            run = self._run(request, self._record(request), place.waited_s)
            if self._store is not None and request.keep:
                await self._enter_thread(self._store, run)
            self._go(run, place)
            return run
        except BaseException:
            self.admission.leave(place)
            raise

    def _run(
        self,
        request: RunRequest,
        record: RunRecord,
        waited_s: float = 0.0,
        past: Sequence[tuple[float, Event]] = (),
    ) -> Run:
        checkpoints = None
        if self._store is not None and request.is_resumable:
            thread = checkpoint_thread(record.id, self._store.process)
            checkpoints = Checkpoints(self._store.checkpoints, thread)
        return Run(
            self._graphs[request.workflow],
            self._services,
            request,
            record,
            tell=self._tell,
            finish=self._finish,
            waited_s=waited_s,
            checkpoints=checkpoints,
            past=past,
            keeps_prompts=self._keeps_prompts and request.keep,
        )

    def _record(self, request: RunRequest) -> RunRecord:
        question, context, fork = request.question["question"], request.context, request.fork
        thread_id = request.thread_id or uuid.uuid4().hex
        stored = {
            "question": question,
            "workflow": request.workflow,
            "thread_id": thread_id,
            "detach": request.detach,
            "collection": request.scope.collection,
            "options": context.model_dump(mode="json", exclude_unset=True),
            **({"protocol": request.protocol} if request.protocol else {}),
            **({"from_run": {"run_id": fork.run_id, "step": fork.step}} if fork else {}),
        }
        return RunRecord(
            id=uuid.uuid4().hex,
            owner=request.scope.owner,
            thread_id=thread_id,
            workflow=request.workflow,
            question=question,
            request=json.dumps(stored, ensure_ascii=False),
            thresholds=json.dumps(asdict(context.thresholds(self._services.evaluator.thresholds))),
            created_at=time.time(),
        )

    def _go(self, run: Run, place: Place) -> None:
        working = copy_context()
        working.run(self.admission.work, place)
        task = asyncio.create_task(run.execute(), name=f"run-{run.id}", context=working)
        self._tasks[run.id], self._live[run.id] = task, run
        task.add_done_callback(lambda _: self._ended(run, place))
        if self._watching is None and self._store is not None:
            self._watching = asyncio.create_task(self._watch(self._store), name="watch-cancels")

    async def _enter_thread(self, store: Store, run: Run) -> None:
        if run.request.thread_id is None:
            store.threads.open(run.thread_id, run.record.owner, run.id)
        else:
            await store.threads.take(run.thread_id, run.record.owner, run.id)
            try:
                if "history" not in run.question:
                    run.question["history"] = await store.threads.history(run.thread_id)
            except BaseException:
                store.threads.let_go(run.record)
                raise
        if not run.is_resumable:
            store.runs.begin(run.record)
            return
        question = as_json(to_jsonable_python(run.question))
        beginning = store.runs.begin(run.record, question, run.request.key)
        # Its client may come back for it from now on.
        await self._written(store, f"run {run.id} could not be kept as one to be resumed yet")
        if beginning is not None and not beginning.is_first:
            store.threads.let_go(run.record)
            raise AlreadyBegun

    async def _written(self, store: Store, otherwise: str) -> bool:
        try:
            async with asyncio.timeout(KEPT_WITHIN_S):
                await store.writer.flush()
        except STORE_ERRORS:
            log.exception("%s", otherwise)
            return False
        return True

    def live(self, run_id: str) -> Run | None:
        """A run under way in this process."""
        return self._live.get(run_id)

    def _observe(self, run_id: str, event: Event) -> None:
        for observe in self._observers:
            observe(run_id, event)

    def _tell(self, run: Run, number: int, at_ms: float, event: Event) -> None:
        self._observe(run.id, event)
        if self._store is not None and run.is_kept and not isinstance(event, LAST_EVENTS):
            self._store.runs.tell(run.id, number, at_ms, event)

    async def _finish(self, run: Run, response: AskResponse | None, last: Ended) -> bool:
        """Answer, status and turn as one: whoever reads the answer may go on, at any process."""
        if response is not None:
            await self.quotas.spend(run.record.owner, response.usage)
        if self._store is None or not run.is_kept:
            return True
        ending = self._keep_ending(self._store, run, response, last)
        await self._written(self._store, f"the end of run {run.id} is not written yet")
        if ending.is_ours and run.is_resumable:
            self._forget_checkpoints(self._store, run)
        return ending.is_ours

    def _keep_ending(
        self, store: Store, run: Run, response: AskResponse | None, last: Ended
    ) -> Ending:
        if response is None or run.is_cancelled:
            turn = store.threads.unanswered(run.record)
        else:
            turn = store.threads.answered(run.record, response)
        return store.runs.end(
            run.id,
            response,
            last,
            turn,
            is_cancelled=run.is_cancelled,
            fork_data=packed(run.question, run.state),
            prompts=prompts.packed(run.prompts),
        )

    def _forget_checkpoints(self, store: Store, run: Run) -> None:
        async def forget() -> None:
            with suppress(Exception):  # they are looked for again when the store is tidied
                thread = checkpoint_thread(run.id, store.process)
                await store.checkpoints.adelete_thread(thread)

        task = asyncio.create_task(forget())
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    def _ended(self, run: Run, place: Place) -> None:
        self._tasks.pop(run.id, None)
        self._live.pop(run.id, None)
        if run.is_handed_over:
            for event in (ErrorEvent(problem=HANDED_OVER), DoneEvent()):
                self._observe(run.id, event)
        elif (last := run.conclude_stopped()) and self._store is not None and run.is_kept:
            self._keep_ending(self._store, run, None, last)
        self.admission.leave(place)

    def begin_taking_over(self) -> None:
        """From now on resume runs of dead processes here, where there is room."""
        if self._store is not None and self._taking_over is None:
            taking_over = self._take_over_on(self._store)
            self._taking_over = asyncio.create_task(taking_over, name="take-over")

    async def _take_over_on(self, store: Store) -> None:
        while True:
            try:
                for run_id in await store.runs.taken_away(list(self._live)) if self._live else ():
                    if run := self._live.get(run_id):
                        log.warning("run %s was taken over by another process", run_id)
                        self._hand_over(run)
                if free := self.admission.free:
                    await self.take_over(free)
            except STORE_ERRORS:
                pass  # told where the store is kept in order
            except Exception:
                log.exception("runs of dead processes could not be taken over")
            await asyncio.sleep(TAKES_OVER_EVERY_S)

    async def take_over(self, most: int, run_id: str | None = None) -> list[Run]:
        """Resume so many runs of dead processes, or this one."""
        if self._store is None:
            return []
        orphans = await self._store.runs.take_over(most, run_id)
        return [run for orphan in orphans if (run := await self._resumed(self._store, orphan))]

    async def _resumed(self, store: Store, orphan: Orphan) -> Run | None:
        record, stored = orphan.record, json.loads(orphan.record.request)
        try:
            # Thresholds were resolved when it began.
            options = {**stored["options"], **json.loads(record.thresholds)}
            request = RunRequest(
                record.workflow,
                json.loads(orphan.question),
                Context.model_validate(options),
                Scope(record.owner, (stored.get("collection", DEFAULT_COLLECTION),)),
                record.thread_id,
                detach=True,
            )
            run = self._run(request, record, past=orphan.events)
            former = checkpoint_thread(record.id, orphan.former_process)
            own = checkpoint_thread(record.id, store.process)
            await store.checkpoints.acopy_thread(former, own)
            await store.checkpoints.adelete_thread(former)
        except Exception:
            log.exception("run %s cannot be resumed", record.id)
            at_ms, number = orphan.events[-1][0] if orphan.events else 0.0, len(orphan.events)
            last = [(number, at_ms, ErrorEvent(problem=LOST)), (number + 1, at_ms, DoneEvent())]
            turn = store.threads.unanswered(record)
            store.runs.end(record.id, None, last, turn, is_cancelled=False)
            return None
        log.warning(
            "run resumed",
            extra={"fields": {"run_id": run.id, "owner": record.owner, "times": orphan.times}},
        )
        as_its_own = copy_context()  # whoever hears of it may listen to its model calls
        as_its_own.run(self._observe, run.id, run.beginning)
        as_its_own.run(self._go, run, self.admission.place(record.owner))
        return run

    async def _watch(self, store: Store) -> None:
        """Cancels here what was cancelled elsewhere; ends with the last run."""
        try:
            while self._tasks:
                await asyncio.sleep(CANCELS_EVERY_S)
                with suppress(*STORE_ERRORS):
                    cancelled = await store.runs.to_cancel() if self._tasks else ()
                    for run in filter(None, map(self._live.get, cancelled)):
                        self.ask_to_stop(run)
        finally:
            self._watching = None

    def ask_to_stop(self, run: Run) -> None:
        """The run ends with the best answer so far; its followers hear it."""
        task = self._tasks.get(run.id)
        if task and not run.is_cancelled and not run.is_ending:
            run.is_cancelled = True
            task.cancel()

    async def cancel(self, run: Run) -> None:
        """Stops the run and whatever it is waiting for; returns when it has ended."""
        if task := self._tasks.get(run.id):
            self.ask_to_stop(run)
            await asyncio.wait({task})

    async def drain(self, within_s: float) -> None:
        """Lets the runs under way end, for that long, and begins no other."""
        if self._taking_over is not None:
            self._taking_over.cancel()
        self.admission.turn_away()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=within_s)

    def _hand_over(self, run: Run) -> None:
        """Ends it here alone: from its last checkpoint on another process goes on with it."""
        if (task := self._tasks.get(run.id)) and not run.is_ending:
            run.hand_over()
            task.cancel()

    async def aclose(self) -> None:
        """Ends all runs: with the best answer so far where one is at hand within ENDED_WITHIN_S.

        Those that are detached are left to another process, or to the next one.
        """
        for run in list(self._live.values()):
            if run.is_detached:
                self._hand_over(run)
            else:
                self.ask_to_stop(run)
        await self.drain(ENDED_WITHIN_S)
        tasks = [*self._tasks.values(), *self._forgetting]
        tasks += [task for task in (self._watching, self._taking_over) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def checked_options(options: Context, preset: Preset, services: Services) -> Context:
    """The run's options, with the service's preset where they name none.

    Raises InvalidRequest for what was chosen and cannot be done here. What a preset would choose
    is left out or stood in for instead.
    """
    bounds = options.thresholds(services.evaluator.thresholds)
    if bounds.lower > bounds.upper:
        field = "lower" if options.lower is not None else "upper"
        detail = f"lower ({bounds.lower}) lies above upper ({bounds.upper})"
        raise InvalidRequest(f"#/options/{field}", detail)
    for field, value, is_missing, why in (
        ("rerank", "model", not services.reranks, "the evaluator's worker has no such model"),
        ("rerank", "lexical", services.lexical is None, "the index keeps no term weights"),
        ("compress", "abstractive", services.chat is None, "needs a language model"),
        *(
            ("compress", name, name not in services.compressors, NEEDS_COMPRESSOR)
            for name in ("longllmlingua", "selective_context")
        ),
    ):
        if is_missing and options.wants(field, value):
            raise InvalidRequest(f"#/options/{field}", f"{value}: {why}")
    return options.with_default_preset(preset)
