"""A run: one question on its way through a graph, in a task of its own, told as events."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, cast

from app.errors import internal_problem
from app.runs import trace
from app.schemas.ask import (
    ANOTHER_WAS_BETTER,
    AnswerEvent,
    AskResponse,
    DoneEvent,
    ErrorEvent,
    Event,
    Problem,
    RetractEvent,
    RunEvent,
    StepEvent,
    TokenEvent,
)
from app.storage.runs import RunRecord
from graphs.ports import Services
from graphs.reflection.selection import early_answer
from graphs.state import Answer, Context, Question
from graphs.types import Degraded, Draft, Usage
from graphs.workflows.registry import Graph

log = logging.getLogger(__name__)

SUMS = ("usage", "degraded")
SUBGRAPHS = ("retrieve", "draft_segments", "reflect")
"""Nodes that sum up what their own nodes have told already."""
STOPPED = Problem(title="Stopped", status=503, detail="The run was stopped before its answer.")

Tell = Callable[["Run", int, float, Event], None]
"""Takes in a run's events as they happen: the run, the event's number, when in ms, the event."""
Finish = Callable[["Run", AskResponse], Awaitable[None]]
"""Keeps a run's answer before anybody hears it, so that the next question knows of it."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run is asked, by whom, in which thread."""

    question: Question
    context: Context
    thread_id: str
    owner: str = ""
    detach: bool = False


class Run:
    """Started by `Runs.start`. `follow` may be read by any number of clients, at any time."""

    def __init__(
        self, graph: Graph, request: RunRequest, services: Services, tell: Tell, finish: Finish
    ) -> None:
        self.id = uuid.uuid4().hex
        self.thread_id, self.workflow = request.thread_id, graph.get_name()
        self.question, self._context = request.question, request.context
        self.response: AskResponse | None = None
        self.is_cancelled = False
        self.is_ending = False
        self._graph, self._services = graph, services
        kept = {
            "question": self.question["question"],
            "workflow": self.workflow,
            "thread_id": self.thread_id,
            "detach": request.detach,
            "options": self._context.model_dump(mode="json", exclude_unset=True),
        }
        self.record = RunRecord(
            id=self.id,
            owner=request.owner,
            thread_id=self.thread_id,
            workflow=self.workflow,
            question=self.question["question"],
            request=json.dumps(kept, ensure_ascii=False),
            thresholds=json.dumps(self.thresholds()),
            created_at=time.time(),
        )
        self._tell_others, self._finish = tell, finish
        self._events: list[Event] = []
        self._more, self._done = asyncio.Event(), asyncio.Event()
        self._started = time.perf_counter()
        self._step_started: dict[str, float] = {}
        self._timings_ms: dict[str, float] = {}
        self._state: Answer = {}
        self._drafts: list[Draft] = []
        self._spent, self._failed = Usage(), list[Degraded]()
        self._texts: dict[int, str] = {}

    async def execute(self) -> None:
        """Runs the graph to its end or its deadline; every outcome becomes events."""
        self._tell(RunEvent(run_id=self.id, thread_id=self.thread_id, workflow=self.workflow))
        try:
            await self._until_it_ends()
            self._settle_text()
            response = self._response()
            self.is_ending = True
            await self._finish(self, response)
            self.response = response
            self._tell(AnswerEvent(response=response))
        except Exception as error:
            log.error("run %s failed", self.id, exc_info=error)
            self._tell(ErrorEvent(problem=internal_problem(self.id)))
        self._tell(DoneEvent())

    async def _until_it_ends(self) -> None:
        """By itself, at its deadline, or because somebody cancelled it."""
        try:
            async with asyncio.timeout(self._context.deadline_ms / 1000) as deadline:
                await self._through_graph()
        except TimeoutError:
            if not deadline.expired():
                raise
            self._stop_early("deadline")
        except asyncio.CancelledError:
            if not self.is_cancelled:
                raise
            cast("asyncio.Task[None]", asyncio.current_task()).uncancel()
            self._stop_early("cancelled")

    def conclude_stopped(self) -> None:
        """Tells whoever follows still that a stopped run has no more to say."""
        if not self._done.is_set():
            self._tell(ErrorEvent(problem=STOPPED))
            self._tell(DoneEvent())

    async def follow(self, start: int = 0) -> AsyncGenerator[tuple[int, Event]]:
        """The numbered events from `start` on, as they come, until the run is done."""
        async with aclosing(self.follow_together(start)) as batches:
            async for batch in batches:
                for numbered in batch:
                    yield numbered

    async def follow_together(self, start: int = 0) -> AsyncGenerator[list[tuple[int, Event]]]:
        """The same, each time all that has happened: what comes at once can be sent at once."""
        while not self._done.is_set() or start < len(self._events):
            if batch := list(enumerate(self._events[start:], start)):
                start += len(batch)
                yield batch
            else:
                await self._more.wait()

    async def all_events(self) -> Sequence[Event]:
        """Once the run is done, for those who want its end alone."""
        await self._done.wait()
        return self._events

    async def _through_graph(self) -> None:
        stream = self._graph.astream(
            self.question,
            context=self._context,
            stream_mode=["tasks", "custom", "values"],
            subgraphs=True,
            version="v2",
        )
        async for part in stream:
            if part["type"] == "tasks":
                self._tell_step(part["ns"], part["data"])
                self._keep(part["ns"], part["data"])
            elif part["type"] == "custom":
                self._tell_text(part["data"])
            elif not part["ns"]:
                self._state = cast("Answer", part["data"])
                self._spent, self._failed = Usage(), []

    def _keep(self, namespace: tuple[str, ...], task: Mapping[str, Any]) -> None:
        """What a step found counts at the deadline though a step beside it goes on.

        Within subgraphs, too: of reflection the best draft so far. Sums are left to the graph,
        whose values follow when all steps side by side have ended; what was spent and what failed
        until then is kept apart.
        """
        result = task.get("result") or {}
        self._drafts += [draft for draft in result.get("drafts", ()) if draft.answer]
        if namespace or task["name"] not in SUBGRAPHS:
            self._spent += result.get("usage", Usage())
            self._failed += result.get("degraded", ())
        values = {key: value for key, value in result.items() if key not in SUMS}
        self._state = cast("Answer", {**self._state, **values})

    def _tell_step(self, namespace: tuple[str, ...], task: Mapping[str, Any]) -> None:
        now, name = self._elapsed_ms(), task["name"]
        path = [*(place.split(":")[0] for place in namespace), name]
        if "input" in task:
            self._step_started[task["id"]] = now
            event = StepEvent(step=name, path=path, phase="start", at_ms=now, detail={})
        else:
            took = round(now - self._step_started.pop(task["id"], now), 3)
            self._timings_ms[name] = round(self._timings_ms.get(name, 0) + took, 3)
            detail = trace.detail_of(task["result"] or {})
            if "action" in detail:
                detail["thresholds"] = self.thresholds()
            event = StepEvent(
                step=name, path=path, phase="end", at_ms=now, took_ms=took, detail=detail
            )
        self._tell(event)

    def _tell_text(self, payload: Mapping[str, Any]) -> None:
        """Tokens add up to a round's draft; a retraction of what nobody heard is not told."""
        if "token" in payload:
            event = TokenEvent(**payload["token"])
            self._texts[event.round] = self._texts.get(event.round, "") + event.text
            self._tell(event)
        elif "retract" in payload:
            retraction = RetractEvent(**payload["retract"])
            if self._texts.pop(retraction.round, ""):
                self._tell(retraction)

    def _settle_text(self) -> None:
        """Makes the stream end with the answer: the best draft need not be the last one told."""
        answer = self._state["answer"]
        if "".join(self._texts.values()) == answer:
            return
        early = {"deadline": "deadline", "cancelled": "cancelled"}
        why = early.get(self._state["stopped_by"], ANOTHER_WAS_BETTER)
        latest = max(self._texts, default=0)
        for round_ in list(self._texts):
            self._tell_text({"retract": {"round": round_, "reason": why}})
        self._tell_text({"token": {"round": latest, "text": answer}})

    def _stop_early(self, why: Literal["deadline", "cancelled"]) -> None:
        """The best draft so far; where none is whole, what was kept is quoted."""
        judged = [draft for draft in self._state.get("candidates", ()) if draft.answer]
        drafts = judged or sorted(self._drafts, key=lambda draft: draft.n)
        spent = self._state.get("usage", Usage()) + self._spent
        failed = [*self._state.get("degraded", ()), *self._failed]
        steps = (event for event in self._events if isinstance(event, StepEvent))
        is_writing = any(event.step == "generate" for event in steps)
        ending: Answer = {"candidates": drafts, "usage": spent, "degraded": failed}
        ending |= early_answer(
            self._state, self.question, drafts, self._context, why, is_writing=is_writing
        )
        self._state = {**self._state, **ending}

    def _response(self) -> AskResponse:
        return trace.response(
            self._state,
            run_id=self.id,
            thread_id=self.thread_id,
            workflow=self.workflow,
            context=self._context,
            services=self._services,
            timings_ms=self._timings_ms,
        )

    def thresholds(self) -> dict[str, float]:
        """The bounds it is decided by, whoever set them."""
        bounds = self._context.thresholds(self._services.evaluator.thresholds)
        return {"upper": bounds.upper, "lower": bounds.lower, "strip_floor": bounds.strip_floor}

    def _elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 3)

    def _tell(self, event: Event) -> None:
        self._tell_others(self, len(self._events), self._elapsed_ms(), event)
        self._events.append(event)
        self._more.set()
        self._more = asyncio.Event()
        if isinstance(event, DoneEvent):
            self._done.set()
