"""Tracing of runs: LangSmith's, which exports whole texts, and OpenTelemetry's, which exports none.

Both are off unless a setting of ours chooses them.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import langsmith

from app.errors import StartFailed
from app.schemas.ask import Event


class RunTracer(Protocol):
    """An observer of runs that exports what it is told."""

    def observe(self, run_id: str, event: Event) -> None:
        """To be called with every event, in order, as it comes; the first one in the run's task."""
        ...

    async def aclose(self) -> None:
        """Exports what is left."""
        ...


def set_tracing(enabled: bool) -> None:
    """For this process, whatever LANGSMITH_TRACING or LANGCHAIN_TRACING_V2 say.

    Where it is on, LangSmith's own variables say where to and with which key.
    """
    langsmith.configure(enabled=enabled)


def spans_to(endpoint: str) -> Callable[[], RunTracer] | None:
    """What opens the export of spans to this collector; None where no endpoint is chosen.

    Raises StartFailed where the extra is not installed or the endpoint is no address.
    """
    if not endpoint:
        return None
    try:
        from app.observability.spans import RunSpans  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise StartFailed(
            f"SELFCRAG_OTLP_ENDPOINT needs the extra otel ({error}): pip install '.[otel]'"
        ) from None
    if not endpoint.startswith(("http://", "https://")):
        raise StartFailed("SELFCRAG_OTLP_ENDPOINT must begin with http:// or https://")
    return partial(RunSpans, endpoint)
