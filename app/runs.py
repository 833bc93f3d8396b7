"""The runs under way: started, cancelled, and all that happens in them told to whoever keeps it."""

import asyncio
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress

from app.errors import TooManyRuns
from app.run import Asked
from app.run import Run as Run
from app.schemas import AskResponse, Event
from graphs.ports import Services
from graphs.state import Context, Question
from graphs.workflows import Graph

Observe = Callable[[str, Event], None]


def _ignore(_: str, __: Event) -> None:
    """Nobody observes."""


class Runs:
    """At most `most` at once; `observe` is called with every event of every run, in order."""

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        services: Services,
        most: int,
        *,
        observe: Observe = _ignore,
    ) -> None:
        self._graphs, self._services, self._most = graphs, services, most
        self._observe = observe
        self._tasks: dict[str, asyncio.Task[None]] = {}

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
        """Raises TooManyRuns when as many as allowed are under way."""
        if len(self._tasks) >= self._most:
            raise TooManyRuns(f"{self._most} runs are under way; try again in a moment.")
        asked = Asked(question, context, thread_id or uuid.uuid4().hex, owner, detach)
        run = Run(self._graphs[workflow], asked, self._services, self._record, self._finish)
        task = asyncio.create_task(run.execute(), name=f"run-{run.id}")
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._ended(run))
        return run

    def _record(self, run: Run, number: int, at_ms: float, event: Event) -> None:
        self._observe(run.id, event)

    async def _finish(self, run: Run, response: AskResponse) -> None:
        pass

    def _ended(self, run: Run) -> None:
        self._tasks.pop(run.id, None)
        run.conclude_stopped()

    async def cancel(self, run: Run) -> None:
        """Stops the run and whatever it is waiting for; returns when it has ended."""
        task = self._tasks.get(run.id)
        if task is None:
            return
        run.is_cancelled = True
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def aclose(self) -> None:
        """Stops all runs."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
