"""Language model calls, reported to the listeners of the run that makes them."""

import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt; `role` as OpenAI names it, `prompt` where there are no roles."""

    role: str
    text: str


@dataclass(slots=True)
class ModelCall:
    """One call with its retries, in OpenTelemetry's words for generative models.

    `operation`: chat, text_completion or embeddings. `error` names the kind of the failure, empty
    without one. `prompt` is its only text, which spans leave out.
    """

    operation: str
    model: str
    host: str
    port: int | None = None
    prompt: Sequence[PromptMessage] = ()
    began_ns: int = field(default_factory=time.time_ns)
    took_ns: int = 0
    retries: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str = ""


Hear = Callable[[ModelCall], None]
_listeners: ContextVar[tuple[Hear, ...]] = ContextVar("listeners", default=())


def listen(hear: Hear) -> None:
    """From now on in the task at hand, such as a run's, and in what it starts."""
    _listeners.set((*_listeners.get(), hear))


def tell(call: ModelCall) -> None:
    """Once it has ended."""
    for hear in _listeners.get():
        hear(call)
