"""What Prometheus learns of the service: its runs, told by their events, and its requests.

Series carry no user, no question and no id: workflows, steps, components and routes are few. The
registry belongs to one app in one process; where several serve, each is scraped and sums are made
in PromQL.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, get_args, runtime_checkable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.schemas import ask
from graphs.ports import Circuit
from graphs.types import Component

_RUN_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_STEP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_UNMATCHED = "unmatched"
_SERVICE_UNAVAILABLE = 503


@dataclass
class _UnderWay:
    workflow: str
    began_s: float
    has_spoken: bool = False


class ServiceMetrics:
    """Series in a registry of their own, so that several apps in one process do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ours: Any = {"namespace": "selfcrag", "registry": self.registry}
        self._documents = Gauge("documents", "Documents in the knowledge base", **ours)
        self._chunks = Gauge("chunks", "Chunks in the knowledge base", **ours)
        self.requests = Counter("http_requests", "Requests", ("method", "route", "status"), **ours)
        about = "Time until a response began"
        self.request_seconds = Histogram(
            "http_request_seconds", about, ("route",), buckets=_STEP_S, **ours
        )
        self._under_way: dict[str, _UnderWay] = {}
        in_progress = Gauge("runs_in_progress", "Runs under way", **ours)
        in_progress.set_function(lambda: len(self._under_way))
        self._runs = Counter(
            "runs", "Runs that ended", ("workflow", "action", "stopped_by"), **ours
        )
        about = "What became of the answers' support"
        self._verdicts = Counter("verdicts", about, ("workflow", "verdict"), **ours)
        self._run_seconds = Histogram(
            "run_seconds", "Time of a run", ("workflow",), buckets=_RUN_S, **ours
        )
        about = "Time until a run's first words"
        self._first_token_seconds = Histogram(
            "first_token_seconds", about, ("workflow",), buckets=_RUN_S, **ours
        )
        self._step_seconds = Histogram(
            "step_seconds", "Time of a step", ("step",), buckets=_STEP_S, **ours
        )
        self._degraded = Counter("degraded", "Parts runs went on without", ("component",), **ours)
        # There from the start: a rate misses the failure that a series begins with.
        for component in get_args(Component):
            self._degraded.labels(component)
        self._places = Gauge("run_places", "Runs that may be busy at once", **ours)
        self._waiting = Gauge("runs_waiting", "Questions that wait for a place", **ours)
        about = "Circuit breaker of a dependency: 0 closed, 0.5 half-open, 1 open"
        self._circuits = Gauge("circuit_open", about, ("dependency",), **ours)
        self._spent = {
            name: Counter(name, description, **ours)
            for name, description in {
                "llm_calls": "Calls of a language model",
                "input_tokens": "Tokens sent to language models",
                "output_tokens": "Tokens written by language models",
                "scored_pairs": "Pairs scored by the evaluator",
                "web_searches": "Web searches",
                "discarded_searches": "Web searches begun early and not needed",
                "grading_calls": "Calls of a language model as grader",
                "grading_tokens": "Tokens of a language model as grader",
            }.items()
        }

    def observe(self, run_id: str, event: ask.Event) -> None:
        """Takes in what happened in a run; to be called with every event, in order, as it comes."""
        if isinstance(event, ask.RunEvent):
            self._under_way[run_id] = _UnderWay(event.workflow, time.perf_counter())
        elif (run := self._under_way.get(run_id)) is None:
            return
        elif isinstance(event, ask.TokenEvent) and not run.has_spoken:
            run.has_spoken = True
            took_s = time.perf_counter() - run.began_s
            self._first_token_seconds.labels(run.workflow).observe(took_s)
        elif isinstance(event, ask.StepEvent) and event.took_ms is not None:
            self._step_seconds.labels(event.step).observe(event.took_ms / 1000)
        elif isinstance(event, ask.AnswerEvent):
            self._answered(event.response)
        elif isinstance(event, ask.ErrorEvent):
            # A run that was stopped says 503; all else is a fault of ours.
            stopped = event.problem.status == _SERVICE_UNAVAILABLE
            self._runs.labels(run.workflow, "none", "cancelled" if stopped else "failed").inc()
        elif isinstance(event, ask.DoneEvent):
            del self._under_way[run_id]
            took_s = time.perf_counter() - run.began_s
            self._run_seconds.labels(run.workflow).observe(took_s)

    async def measure(self, retriever: object) -> None:
        """Takes in how large the knowledge base is, where it can tell."""
        if isinstance(retriever, Sized) and (size := await retriever.size()):
            self._documents.set(size[0])
            self._chunks.set(size[1])

    def show_admission(self, places: int, waiting: int) -> None:
        """Takes in how many runs may work at once, and how many wait for a place."""
        self._places.set(places)
        self._waiting.set(waiting)

    def show_circuits(self, circuits: Mapping[str, Circuit]) -> None:
        """Takes in how open the circuit breaker of each dependency is."""
        for dependency, circuit in circuits.items():
            self._circuits.labels(dependency).set(circuit.openness())

    def _answered(self, response: ask.AskResponse) -> None:
        action = response.action or "none"
        self._runs.labels(response.workflow, action, response.stopped_by).inc()
        self._verdicts.labels(response.workflow, response.verdict).inc()
        for component in {entry.component for entry in response.degraded}:
            self._degraded.labels(component).inc()
        for name, counter in self._spent.items():
            counter.inc(getattr(response.usage, name))


@runtime_checkable
class Sized(Protocol):
    """A knowledge base that knows how large it is."""

    async def size(self) -> tuple[int, int] | None:
        """Documents and chunks, or None where that is not known now."""
        ...


class CountRequests:
    """Counts requests by the route's template, never by the path: a path holds ids."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                took_s = time.perf_counter() - began_s
                self._metrics.request_seconds.labels(_route_of(scope)).observe(took_s)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, _route_of(scope), status).inc()


def _route_of(scope: Scope) -> str:
    """The template the router found; known once the request has reached it."""
    return getattr(scope.get("route"), "path", _UNMATCHED)
