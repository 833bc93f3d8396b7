"""Calls of language models, told to whoever listens in the run that makes them."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class ModelCall:
    """One call with its retries, in OpenTelemetry's words for generative models; no text.

    `operation`: chat, text_completion or embeddings. `error` names the kind of the failure, empty
    without one.
    """

    operation: str
    model: str
    host: str
    port: int | None = None
    began_ns: int = field(default_factory=time.time_ns)
    took_ns: int = 0
    retries: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str = ""


listener: ContextVar[Callable[[ModelCall], None] | None] = ContextVar("listener", default=None)
"""Set for a run's task; what it starts inherits it."""


def tell(call: ModelCall) -> None:
    """Once it has ended."""
    if (hear := listener.get()) is not None:
        hear(call)
