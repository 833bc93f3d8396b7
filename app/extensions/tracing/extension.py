"""OpenTelemetry's spans of runs as an extension."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial

from fastapi import FastAPI
from pydantic import Field

from app.errors import StartFailed
from app.extension import Listener, ServiceExtension
from app.observability.redaction import redact
from app.settings import ExtensionSettings, load_settings


class TracingSettings(ExtensionSettings):
    otlp_endpoint: str = Field(
        default="",
        json_schema_extra={"group": "records"},
        description="OpenTelemetry collector (OTLP over HTTP) for spans of runs, without questions "
        "and answers; empty: none. Needs the extra otel.",
    )


class Tracing(ServiceExtension):
    settings = TracingSettings

    def add_to(self, app: FastAPI) -> None:
        """Raises StartFailed where the extra is not installed or the endpoint is no address."""
        settings = load_settings(TracingSettings)
        redact.learn(settings)
        app.state.open_spans = None
        if not (endpoint := settings.otlp_endpoint):
            return
        try:
            from app.extensions.tracing.spans import RunSpans
        except ImportError as error:
            raise StartFailed(
                f"SELFCRAG_OTLP_ENDPOINT needs the extra otel ({error}): pip install '.[otel]'"
            ) from None
        if not endpoint.startswith(("http://", "https://")):
            raise StartFailed("SELFCRAG_OTLP_ENDPOINT must begin with http:// or https://")
        app.state.open_spans = partial(RunSpans, endpoint)

    @asynccontextmanager
    async def listening(self, app: FastAPI) -> AsyncIterator[Sequence[Listener]]:
        if app.state.open_spans is None:
            yield ()
            return
        async with aclosing(app.state.open_spans()) as spans:
            yield (spans.observe,)


extension = Tracing()
