"""The runs under way: started, cancelled, and all that happens in them told to whoever keeps it."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from app.errors import InvalidRequest
from app.runs.admission import Admission, Place
from app.runs.run import Run
from app.schemas.ask import AskResponse, Event
from app.storage.lifecycle import Store
from graphs.options import Preset
from graphs.ports import Services
from graphs.state import Context, Question
from graphs.workflows.registry import Graph

log = logging.getLogger(__name__)

CANCELS_EVERY_S = 0.05
"""How often a run learns that it was cancelled at another process."""
KEPT_WITHIN_S = 5.0
"""Longest wait of an answer for its thread to be written; then it is told all the same."""
ENDED_WITHIN_S = 1.0
"""Longest time for the runs' best answers so far when the service ends."""
NEEDS_COMPRESSOR = "needs SELFCRAG_EVALUATOR_COMPRESSOR"
STORE_ERRORS = (SQLAlchemyError, OSError, TimeoutError)

Observe = Callable[[str, Event], None]


class Runs:
    """At most `most` at once, fewer where they would hold each other up.

    `observe` is called with every event of every run, in order.

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
        observe: Observe = lambda *_: None,
    ) -> None:
        self._graphs, self._services = graphs, services
        self.admission = Admission(most)
        self._store, self._preset, self._observe = store, preset, observe
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._live: dict[str, Run] = {}
        self._watching: asyncio.Task[None] | None = None

    async def start(
        self,
        workflow: str,
        question: Question,
        context: Context,
        thread_id: str | None = None,
        *,
        owner: str = "",
        detach: bool = False,
    ) -> Run:
        """On a thread that is known, its latest turns are the history if the question has none.

        Raises InvalidRequest as `checked_options` does, TooManyRuns when no place is free in time,
        ThreadBusy when a run is on this thread, NotFound where the thread is another's.
        """
        context = checked_options(context, self._preset, self._services)
        place = await self.admission.enter(owner, context.deadline_ms / 1000)
        try:
            return await self._started(workflow, question, context, thread_id, place, detach=detach)
        except BaseException:
            self.admission.leave(place)
            raise

    async def _started(
        self,
        workflow: str,
        question: Question,
        context: Context,
        thread_id: str | None,
        place: Place,
        *,
        detach: bool,
    ) -> Run:
        run = Run(
            self._graphs[workflow],
            self._services,
            question,
            context,
            thread_id=thread_id or uuid.uuid4().hex,
            owner=place.owner,
            waited_s=place.waited_s,
            detach=detach,
            tell=self._tell,
            finish=self._finish,
        )
        if self._store is not None:
            await self._enter_thread(self._store, run, is_new=thread_id is None)
        task = asyncio.create_task(run.execute(), name=f"run-{run.id}")
        self._tasks[run.id], self._live[run.id] = task, run
        task.add_done_callback(lambda _: self._ended(run, place))
        return run

    async def _enter_thread(self, store: Store, run: Run, is_new: bool) -> None:
        if is_new:
            store.threads.open(run.thread_id, run.record.owner, run.id)
        else:
            await store.threads.take(run.thread_id, run.record.owner, run.id)
            try:
                if "history" not in run.question:
                    run.question["history"] = await store.threads.history(run.thread_id)
            except BaseException:
                store.threads.let_go(run.record)
                raise
        store.runs.begin(run.record)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(store), name="watch-cancels")

    def live(self, run_id: str) -> Run | None:
        """A run under way in this process."""
        return self._live.get(run_id)

    def _tell(self, run: Run, number: int, at_ms: float, event: Event) -> None:
        self._observe(run.id, event)
        if self._store is not None:
            self._store.runs.tell(run.id, number, at_ms, event)

    async def _finish(self, run: Run, response: AskResponse) -> None:
        """Whoever reads the answer may go on at once, at any process."""
        if self._store is None:
            return
        if run.is_cancelled:
            self._store.threads.let_go(run.record)
            return
        self._store.threads.answered(run.record, response)
        try:
            async with asyncio.timeout(KEPT_WITHIN_S):
                await self._store.writer.flush()
        except STORE_ERRORS:
            log.exception("the turn of run %s is not written yet", run.id)

    def _ended(self, run: Run, place: Place) -> None:
        self._tasks.pop(run.id, None)
        self._live.pop(run.id, None)
        run.conclude_stopped()
        is_telling = run.response is not None and not run.is_cancelled
        self.admission.leave(place, time.monotonic() - place.began_s if is_telling else None)
        if self._store is None:
            return
        if run.response is None:
            self._store.threads.let_go(run.record)
        self._store.runs.end(run.id, run.response, is_cancelled=run.is_cancelled)

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
        """Lets the runs under way end, for that long; returns when none is left."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=within_s)

    async def aclose(self) -> None:
        """Ends all runs: with the best answer so far where one is at hand within ENDED_WITHIN_S."""
        for run in list(self._live.values()):
            self.ask_to_stop(run)
        await self.drain(ENDED_WITHIN_S)
        tasks = list(self._tasks.values())
        if self._watching is not None:
            tasks.append(self._watching)
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
