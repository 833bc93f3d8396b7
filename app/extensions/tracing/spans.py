"""OpenTelemetry spans: a run, its steps, the calls of language models in them; never any text.

Names follow the semantic conventions for generative models (`gen_ai.*`); what they have no word for
is `selfcrag.*`. Needs the extra `otel`.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from langchain_core.runnables import ensure_config
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.observability import model_calls
from app.observability.logging import STOPPED_STATUS, traceparent
from app.observability.model_calls import ModelCall
from app.schemas import ask

SERVICE = "self-crag"
EXPORT_WITHIN_S = 5.0
"""Longest wait for the collector, at the end of the service as well; later spans are dropped."""


@dataclass(frozen=True, slots=True)
class _Step:
    path: tuple[str, ...]
    began_ms: float
    span: Span


@dataclass(slots=True)
class _UnderWay:
    span: Span
    steps: list[_Step] = field(default_factory=list)

    def innermost(self, path: tuple[str, ...]) -> Span:
        """That of the latest step under way on this path, or on the longest part of it."""
        for length in range(len(path), 0, -1):
            for step in reversed(self.steps):
                if step.path == path[:length]:
                    return step.span
        return self.span


class RunSpans:
    """Exports by OTLP over HTTP to a collector, in the background and in batches.

    `endpoint` is its base address, to which `/v1/traces` is added. The parent of a run is what the
    request's `traceparent` names.
    """

    def __init__(self, endpoint: str) -> None:
        address = f"{endpoint.rstrip('/')}/v1/traces"
        exporter = OTLPSpanExporter(endpoint=address, timeout=EXPORT_WITHIN_S)
        resource = Resource.create({"service.name": SERVICE, "service.version": version(SERVICE)})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(SERVICE)
        self._under_way: dict[str, _UnderWay] = {}

    async def aclose(self) -> None:
        await asyncio.to_thread(self._provider.shutdown)

    def observe(self, run_id: str, event: ask.Event) -> None:
        if isinstance(event, ask.RunEvent):
            self._under_way[run_id] = _UnderWay(self._run_span(event))
            model_calls.listen(partial(self._called, run_id))
        elif (run := self._under_way.get(run_id)) is None:
            return
        elif isinstance(event, ask.StepEvent):
            tell = self._start_step if event.phase == "start" else self._ended
            tell(run, event)
        elif isinstance(event, ask.AnswerEvent):
            self._answered(run.span, event.response)
        elif isinstance(event, ask.ErrorEvent):
            self._failed(run.span, event.problem)
        elif isinstance(event, ask.DoneEvent):
            del self._under_way[run_id]
            for step in reversed(run.steps):
                step.span.end()
            run.span.end()

    def _run_span(self, event: ask.RunEvent) -> Span:
        parent = TraceContextTextMapPropagator().extract({"traceparent": traceparent.get()})
        return self._tracer.start_span(
            f"invoke_agent {event.workflow}",
            context=parent,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": event.workflow,
                "gen_ai.conversation.id": event.thread_id,
                "selfcrag.run_id": event.run_id,
            },
        )

    def _start_step(self, run: _UnderWay, event: ask.StepEvent) -> None:
        path = tuple(event.path)
        span = self._tracer.start_span(
            event.step,
            context=set_span_in_context(run.innermost(path[:-1])),
            attributes={"selfcrag.path": path},
        )
        run.steps.append(_Step(path, event.at_ms, span))

    def _ended(self, run: _UnderWay, event: ask.StepEvent) -> None:
        """Parallel steps are distinguished by their start times."""
        began_ms = event.at_ms - (event.took_ms or 0.0)
        same = [step for step in run.steps if step.path == tuple(event.path)]
        if not same:
            return
        step = min(same, key=lambda step: abs(step.began_ms - began_ms))
        run.steps.remove(step)
        if failed := {entry["component"] for entry in event.detail.get("degraded", ())}:
            step.span.set_attribute("selfcrag.degraded", sorted(failed))
        step.span.end()

    def _answered(self, span: Span, response: ask.AskResponse) -> None:
        span.set_attributes(
            {
                "gen_ai.response.model": response.models.generator,
                "gen_ai.usage.input_tokens": response.usage.input_tokens,
                "gen_ai.usage.output_tokens": response.usage.output_tokens,
                "selfcrag.action": response.action or "none",
                "selfcrag.stopped_by": response.stopped_by,
                "selfcrag.verdict": response.verdict,
                "selfcrag.degraded": sorted({each.component for each in response.degraded}),
            }
        )

    def _failed(self, span: Span, problem: ask.Problem) -> None:
        if problem.status == STOPPED_STATUS:
            span.set_attribute("selfcrag.stopped_by", "cancelled")
            return
        span.set_attribute("error.type", str(problem.status))
        span.set_status(StatusCode.ERROR, problem.title)

    def _called(self, run_id: str, call: ModelCall) -> None:
        """Called within the step that made the call: its node's config names it."""
        if (run := self._under_way.get(run_id)) is None:
            return
        namespace = str(ensure_config().get("metadata", {}).get("langgraph_checkpoint_ns", ""))
        path = tuple(place.split(":")[0] for place in namespace.split("|"))
        facts = {
            "gen_ai.operation.name": call.operation,
            "gen_ai.provider.name": "openai",  # whose protocol it is
            "gen_ai.request.model": call.model,
            "server.address": call.host,
            "server.port": call.port,
            "gen_ai.usage.input_tokens": call.input_tokens,
            "gen_ai.usage.output_tokens": call.output_tokens,
            "http.request.resend_count": call.retries or None,
            "error.type": call.error or None,
        }
        span = self._tracer.start_span(
            f"{call.operation} {call.model}",
            context=set_span_in_context(run.innermost(path)),
            kind=SpanKind.CLIENT,
            start_time=call.began_ns,
            attributes={name: value for name, value in facts.items() if value is not None},
        )
        if call.error:
            span.set_status(StatusCode.ERROR)
        span.end(call.began_ns + call.took_ns)
