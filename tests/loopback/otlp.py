"""Speaks OTLP over HTTP: a collector that keeps the spans it was sent."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tests.loopback.server import LoopbackServer


class Collector(LoopbackServer):
    """`spans` in the order they came, `sent` every byte of them, `resource` of whom they are."""

    def reset(self) -> None:
        super().reset()
        self.spans: list[Span] = []
        self.resource: dict[str, Any] = {}
        self.sent = b""

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/v1/traces", self.traces, methods=["POST"])]

    async def traces(self, request: Request) -> Response:
        self.record(request)
        if self.refuses():
            return Response(status_code=self.status)
        body = await request.body()
        self.sent += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = attributes_of(resource.resource)
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        reply = ExportTraceServiceResponse().SerializeToString()
        return Response(reply, media_type="application/x-protobuf")


def attributes_of(owner: Any) -> dict[str, Any]:
    """Those of a span or a resource, as Python has them."""
    return {each.key: _plain(each.value) for each in owner.attributes}


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None
